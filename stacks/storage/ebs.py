"""An EBS volume on the head node. The head node attaches it itself when it boots, as its data volume."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from gpucluster.config import storage as kinds
from stacks import deletion, roles
from stacks.arns import arn
from stacks.context import Context
from stacks.encryption import key_arn
from stacks.storage.home import AT_END
from stacks.storage.mounts import announce, tag


class Ebs(Construct):
    """A new volume has the cluster's tag, by which the head node may attach and detach it: see HomeVolume. One that
    exists is named in the role, and stays as it is."""

    def __init__(self, scope: Construct, id_: str, *, context: Context, storage: kinds.Ebs) -> None:
        super().__init__(scope, id_)
        volume_id = storage.volume_id or self._volume(context, storage).ref
        if storage.volume_id:
            actions = ["ec2:AttachVolume", "ec2:DetachVolume"]
            roles.allow(context.head_role, actions, [arn(self, "ec2", f"volume/{storage.volume_id}")])
        announce(context, storage, {"volume_id": volume_id})

    def _volume(self, context: Context, storage: kinds.Ebs) -> ec2.CfnVolume:
        volume = ec2.CfnVolume(
            self,
            "Volume",
            availability_zone=context.network.availability_zone,
            size=storage.size_gib,
            volume_type=storage.kind,
            iops=storage.iops,
            throughput=storage.throughput_mibps,
            snapshot_id=storage.snapshot_id,
            encrypted=True,
            kms_key_id=key_arn(context.key),
        )
        deletion.set_policy(volume, AT_END[storage.at_end])
        # A replacement would be empty, so the old volume is retained.
        volume.cfn_options.update_replace_policy = cdk.CfnDeletionPolicy.RETAIN
        tag(self, context, storage.mount)
        return volume
