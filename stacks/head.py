"""The head node: the one instance that CloudFormation makes."""

from __future__ import annotations

from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_route53 as route53
from constructs import Construct, IDependable

from stacks.images import ROOT_DEVICE, ROOT_VOLUME_GIB
from stacks.network import Network
from stacks.storage.home import HomeVolume


class HeadNode(Construct):
    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        cluster: str,
        instance_type: str,
        image: ec2.IMachineImage,
        user_data: str,
        network: Network,
        role: iam.Role,
        home: HomeVolume,
        after: Sequence[IDependable],
        key: kms.IKey | None = None,
    ) -> None:
        super().__init__(scope, id_)
        self.instance = ec2.Instance(
            self,
            "Instance",
            instance_name=f"{cluster}-head",
            instance_type=ec2.InstanceType(instance_type),
            machine_image=image,
            user_data=ec2.UserData.custom(user_data),
            vpc=network.vpc,
            vpc_subnets=ec2.SubnetSelection(subnets=[network.subnet]),
            security_group=network.head,
            role=role,
            http_tokens=ec2.HttpTokens.REQUIRED,
            http_put_response_hop_limit=1,
            block_devices=[_encrypted_root(key)],
        )
        cdk.Tags.of(self.instance).add("gpucluster:cluster", cluster)
        cdk.Tags.of(self.instance).add("gpucluster:role", "head")
        # Whatever the head needs to boot, it needs to shut down as well: then it ends the nodes that it launched.
        # CloudFormation deletes in the reverse order: the network, the policies, the zone are still there.
        self.instance.node.add_dependency(network, role, home.volume, *after)
        self.attachment = home.attach(self.instance)
        self.record = route53.ARecord(
            self,
            "Record",
            zone=network.zone,
            record_name="head",
            target=route53.RecordTarget.from_ip_addresses(self.instance.instance_private_ip),
            ttl=cdk.Duration.seconds(60),
        )


def _encrypted_root(key: kms.IKey | None) -> ec2.BlockDevice:
    volume = ec2.BlockDeviceVolume.ebs(
        ROOT_VOLUME_GIB, encrypted=True, kms_key=key, volume_type=ec2.EbsDeviceVolumeType.GP3
    )
    return ec2.BlockDevice(device_name=ROOT_DEVICE, volume=volume)
