"""Disks that outlive a boot."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_kms as kms
from constructs import Construct


class HomeVolume(Construct):
    """/home and Slurm's state, on a volume of its own: the head node can be rebuilt without them.

    It goes with the stack. `gpucluster down` says so and asks.
    """

    device = "/dev/sdf"

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        name: str,
        availability_zone: str,
        size_gib: int,
        key: kms.IKey | None = None,
    ) -> None:
        super().__init__(scope, id_)
        self.volume = ec2.Volume(
            self,
            "Volume",
            availability_zone=availability_zone,
            size=cdk.Size.gibibytes(size_gib),
            volume_type=ec2.EbsDeviceVolumeType.GP3,
            encrypted=True,
            encryption_key=key,
            removal_policy=cdk.RemovalPolicy.DESTROY,
        )
        cdk.Tags.of(self.volume).add("Name", name)

    def attach(self, instance: ec2.Instance) -> ec2.CfnVolumeAttachment:
        attachment = ec2.CfnVolumeAttachment(
            self, "Attachment", instance_id=instance.instance_id, volume_id=self.volume.volume_id, device=self.device
        )
        # Detaching a mounted volume hangs. Left alone, the attachment ends with the instance, which goes next.
        attachment.apply_removal_policy(cdk.RemovalPolicy.RETAIN)
        return attachment
