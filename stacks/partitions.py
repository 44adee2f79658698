"""What the head node launches nodes from: launch templates and placement groups, one set for each partition."""

from __future__ import annotations

from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from gpucluster.instances import EfaMode, InstanceType, efa_layout
from stacks.encryption import key_arn
from stacks.images import ROOT_DEVICE, ROOT_VOLUME_GIB
from stacks.network import Network

Template = ec2.CfnLaunchTemplate


def pascal(name: str) -> str:
    """`gpu-large` and `p4d.24xlarge` as construct ids."""
    return "".join(part[:1].upper() + part[1:] for part in name.replace(".", "-").split("-"))


class Partition(Construct):
    """One launch template for each instance type that the partition may get, in order of preference.

    The head node launches from them; nothing here starts an instance, so a shortage of capacity cannot fail the stack.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        cluster: str,
        name: str,
        instance_types: Sequence[InstanceType],
        image: ec2.IMachineImage,
        user_data: str,
        network: Network,
        profile: iam.InstanceProfile,
        placement_group: str,
        efa: EfaMode,
        key: kms.IKey | None = None,
    ) -> None:
        """`placement_group`: `cluster`, `none`, or the name of a group that exists."""
        super().__init__(scope, id_)
        self.name = name
        self.image_id = image.get_image(self).image_id
        self.placement_group = self._placement_group(placement_group)
        self._tags = {"gpucluster:cluster": cluster, "gpucluster:role": "compute", "gpucluster:partition": name}
        self._user_data = user_data
        self._profile = profile
        self._key = key
        self.templates = {
            instance_type.name: self._template(instance_type, _interfaces(instance_type, efa=efa, network=network))
            for instance_type in instance_types
        }

    def describe(self) -> list[dict[str, str]]:
        """For the head node: what to launch from. The version is explicit: `$Latest` could change under a launch."""
        return [
            {"instance_type": name, "launch_template_id": template.ref, "version": template.attr_latest_version_number}
            for name, template in self.templates.items()
        ]

    def _placement_group(self, wish: str) -> str | None:
        if wish == "cluster":
            return ec2.CfnPlacementGroup(self, "Placement", strategy="cluster").ref
        return None if wish == "none" else wish

    def _template(
        self, instance_type: InstanceType, interfaces: Sequence[Template.NetworkInterfaceProperty]
    ) -> Template:
        data = Template.LaunchTemplateDataProperty(
            image_id=self.image_id,
            instance_type=instance_type.name,
            user_data=cdk.Fn.base64(self._user_data),
            iam_instance_profile=Template.IamInstanceProfileProperty(arn=self._profile.instance_profile_arn),
            metadata_options=Template.MetadataOptionsProperty(http_tokens="required", http_put_response_hop_limit=1),
            block_device_mappings=[_encrypted_root_mapping(self._key)],
            network_interfaces=interfaces,
            placement=Template.PlacementProperty(group_name=self.placement_group) if self.placement_group else None,
            instance_initiated_shutdown_behavior="terminate",
            tag_specifications=[self._tag_specification(kind) for kind in ("instance", "volume")],
        )
        return Template(self, pascal(instance_type.name), launch_template_data=data)

    def _tag_specification(self, kind: str) -> Template.TagSpecificationProperty:
        tags = [cdk.CfnTag(key=key, value=value) for key, value in self._tags.items()]
        return Template.TagSpecificationProperty(resource_type=kind, tags=tags)


def _interfaces(
    instance_type: InstanceType, *, efa: EfaMode, network: Network
) -> list[Template.NetworkInterfaceProperty]:
    """Groups and subnet stand in each: EC2 refuses them beside the interfaces. None has a public address."""
    return [
        Template.NetworkInterfaceProperty(
            network_card_index=interface.network_card_index,
            device_index=interface.device_index,
            interface_type=interface.interface_type,
            subnet_id=network.subnet.subnet_id,
            groups=[network.compute.security_group_id],
            delete_on_termination=True,
        )
        for interface in efa_layout(instance_type, efa)
    ]


def _encrypted_root_mapping(key: kms.IKey | None) -> Template.BlockDeviceMappingProperty:
    ebs = Template.EbsProperty(
        volume_size=ROOT_VOLUME_GIB,
        volume_type="gp3",
        encrypted=True,
        kms_key_id=key_arn(key),
        delete_on_termination=True,
    )
    return Template.BlockDeviceMappingProperty(device_name=ROOT_DEVICE, ebs=ebs)
