"""Launch templates and placement groups for each partition: the head node launches nodes from them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from gpucluster import layout as expanded
from gpucluster import render
from gpucluster.config.construct_ids import pascal
from gpucluster.hardware.instances import EfaMode, InstanceType, efa_layout
from gpucluster.layout import Layout
from stacks.images import image_id, node_image_id, root_disk, root_gib
from stacks.network import Network
from stacks.purchase import Purchase

Template = ec2.CfnLaunchTemplate
OF_NODES = ("cluster", "role", "partition")
"""Tags, without their prefix."""
LAUNCHED = ("instance", "volume", "network-interface")
"""What RunInstances creates and a launch template tags."""


@dataclass(frozen=True)
class Launches:
    """The common properties of the cluster's launch templates."""

    cluster: str
    network: Network
    profile: iam.InstanceProfile
    user_data: str
    tags: Mapping[str, str]
    """The user's own."""


class Partitions(Construct):
    """All partitions, the parameter servers last."""

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        layout: Layout,
        network: Network,
        role: iam.Role,
        key: kms.IKey | None,
    ) -> None:
        super().__init__(scope, id_)
        config = layout.config
        # No partition's id has a hyphen, so this id is free.
        profile = iam.InstanceProfile(self, "Node-Profile", role=role)
        launches = Launches(config.name, network, profile, render.user_data(config, "compute"), config.tags)
        self.all: list[Partition] = []
        groups: dict[str, str] = {}
        stack = cdk.Stack.of(self)
        images = {image: node_image_id(stack, config, image) for image in {each.image for each in layout.partitions}}
        for each in layout.partitions:
            image = images[each.image]
            gib = root_gib(config, each.image, image != image_id(stack, each.image), each.root)
            disk = root_disk(key, gib, each.root)
            made = Partition(
                self, pascal(each.name), partition=each, image_id=image, disk=disk, launches=launches, groups=groups
            )
            self.all.append(made)

    def __iter__(self) -> Iterator[Partition]:
        return iter(self.all)


class Partition(Construct):
    """One launch template for each instance type of the partition, in order of preference.

    The head node launches from them. The stack starts no compute node, so a shortage of capacity cannot fail it.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        partition: expanded.Partition,
        image_id: str,
        disk: Template.BlockDeviceMappingProperty,
        launches: Launches,
        groups: dict[str, str],
    ) -> None:
        """`groups`: the placement groups of the stack so far, by partition; this partition's is added."""
        super().__init__(scope, id_)
        self.name = partition.name
        self.image_id = image_id
        self._disk = disk
        self.purchase = Purchase(partition.purchase, partition.reservation_id)
        self.group = partition.group
        self.topology = partition.topology
        self.groups = partition.security_groups
        self._launches = launches
        self._group_name = self._placement_group(groups)
        efa: EfaMode = "efa-only" if partition.efa else "off"
        self.templates = {each.name: self._template(each, efa) for each in partition.types}

    def describe(self) -> list[dict[str, str]]:
        """For the head node: what to launch from. The version is explicit, because `$Latest` could change during a
        launch."""
        return [
            {"instance_type": name, "launch_template_id": template.ref, "version": template.attr_latest_version_number}
            for name, template in self.templates.items()
        ]

    def _placement_group(self, groups: dict[str, str]) -> str | None:
        if not self.group or not self.group.ours:
            return self.group.name if self.group else None
        if self.group.name == self.name:
            own = self._tags("cluster")
            made = ec2.CfnPlacementGroup(self, "Placement", strategy="cluster", tags=own)
            # A change of its tags replaces the group (its schema: Tags are create-only) while nodes are in the old one.
            # So it never has those that a user adds to the whole stack.
            made.add_property_override("Tags", [{"Key": tag.key, "Value": tag.value} for tag in own])
            groups[self.name] = made.ref
        return groups[self.group.name]

    def _template(self, instance_type: InstanceType, efa: EfaMode) -> Template:
        profile_arn = self._launches.profile.instance_profile_arn
        options = instance_type.cpu_options
        data = Template.LaunchTemplateDataProperty(
            image_id=self.image_id,
            instance_type=instance_type.name,
            cpu_options=Template.CpuOptionsProperty(**options._asdict()) if options else None,
            user_data=cdk.Fn.base64(self._launches.user_data),
            iam_instance_profile=Template.IamInstanceProfileProperty(arn=profile_arn),
            metadata_options=Template.MetadataOptionsProperty(http_tokens="required", http_put_response_hop_limit=1),
            block_device_mappings=[self._disk],
            network_interfaces=_interfaces(instance_type, efa=efa, network=self._launches.network, groups=self.groups),
            placement=Template.PlacementProperty(group_name=self._group_name) if self._group_name else None,
            instance_market_options=self.purchase.market(),
            capacity_reservation_specification=self.purchase.reservation(),
            instance_initiated_shutdown_behavior="terminate",
            tag_specifications=[
                Template.TagSpecificationProperty(resource_type=kind, tags=self._tags(*OF_NODES) + self._users_tags())
                for kind in LAUNCHED
            ],
        )
        # The head node may launch only from templates with this tag.
        own = Template.LaunchTemplateTagSpecificationProperty(
            resource_type="launch-template", tags=self._tags("cluster") + self._users_tags()
        )
        return Template(self, pascal(instance_type.name), launch_template_data=data, tag_specifications=[own])

    def _tags(self, *keys: str) -> list[cdk.CfnTag]:
        launches = self._launches
        values = {"cluster": launches.cluster, "role": "compute", "partition": self.name}
        return [cdk.CfnTag(key=f"gpucluster:{key}", value=values[key]) for key in keys]

    def _users_tags(self) -> list[cdk.CfnTag]:
        return [cdk.CfnTag(key=key, value=value) for key, value in self._launches.tags.items()]


def _interfaces(
    instance_type: InstanceType, *, efa: EfaMode, network: Network, groups: Sequence[str]
) -> list[Template.NetworkInterfaceProperty]:
    """Each interface names the security groups and the subnet, because EC2 refuses them beside interfaces. No interface
    has a public address.

    A user's subnet may give addresses to every instance that starts in it, so a single interface turns that off. With
    several interfaces EC2 gives no address and refuses the setting.
    """
    layout = efa_layout(instance_type, efa)
    return [
        Template.NetworkInterfaceProperty(
            network_card_index=interface.network_card_index,
            device_index=interface.device_index,
            interface_type=interface.interface_type,
            subnet_id=network.subnet.subnet_id,
            groups=[network.compute.security_group_id, *groups],
            associate_public_ip_address=False if len(layout) == 1 else None,
            delete_on_termination=True,
        )
        for interface in layout
    ]
