"""The head node, the only instance that CloudFormation creates, and the alarms that recover it."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_route53 as route53
from constructs import Construct, IDependable

from gpucluster import render
from gpucluster.config import ClusterConfig
from gpucluster.config.nodes import HeadNode as HeadNodeConfig
from gpucluster.hardware.instances import INSTANCE_TYPES, InstanceType
from stacks.context import Context
from stacks.images import Template, machine_image, root_device, root_disk, root_gib
from stacks.network import Network
from stacks.storage.home import HomeVolume

RECOVER_AFTER_MINUTES = 2
REBOOT_AFTER_MINUTES = 5
"""Fewer than for the recovery, because the two must not happen at once."""


def generation(*what_replaces: str | None, gib: int, head: HeadNodeConfig) -> str:
    """8 hex digits of a hash over everything that makes CloudFormation replace the head node. Only a head node of the
    generation that the stack wants applies the stack's bundle, and takes the data volume from another head node.
    `gib`: its root disk."""
    root = head.root_volume
    launched = INSTANCE_TYPES[head.instance_type].launched_with(head.threads_per_core)
    more = [each for each in (root.iops, root.throughput_mibps, *(launched.cpu_options or ())) if each]
    return sha256(repr((*what_replaces, gib, *more)).encode()).hexdigest()[:8]


class HeadNode(Construct):
    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        context: Context,
        home: HomeVolume,
        generation: str,
        replacements: int,
        after: Sequence[IDependable],
        topic_arn: str | None = None,
    ) -> None:
        """`replacements`: how often it was replaced without another reason. `topic_arn`: notified when the head node is
        recovered or rebooted."""
        super().__init__(scope, id_)
        self._topic_arn = topic_arn
        config, network, role = context.config, context.network, context.head_role
        root = config.head_node.root_volume
        gib = root_gib(config, context.layout.head_image, baked=False, root=root)
        instance_type = INSTANCE_TYPES[config.head_node.instance_type]
        self.instance = ec2.Instance(
            self,
            "Instance",
            instance_name=f"{config.name}-head",
            instance_type=ec2.InstanceType(instance_type.name),
            machine_image=machine_image(context.layout.head_image, region=config.region),
            user_data=ec2.UserData.custom(render.user_data(config, "head")),
            vpc=network.vpc,
            vpc_subnets=ec2.SubnetSelection(subnets=[network.subnet]),
            security_group=network.head,
            # A user's subnet may give a public address to every instance that starts in it.
            associate_public_ip_address=False if network.exists else None,
            role=role,
            http_tokens=ec2.HttpTokens.REQUIRED,
            http_put_response_hop_limit=1,
            disable_api_termination=config.head_node.termination_protection,
            block_devices=None if root.throughput_mibps else [root_device(context.key, gib, root)],
            # The budget counts costs with the cluster's tag.
            propagate_tags_to_volume_on_creation=True,
        )
        if options := instance_type.launched_with(config.head_node.threads_per_core).cpu_options:
            self.instance.instance.cpu_options = ec2.CfnInstance.CpuOptionsProperty(**options._asdict())
        if root.throughput_mibps:
            self._launch_template(config, generation, root_disk(context.key, gib, root))
        for number, group in enumerate(config.head_node.security_groups):
            own = ec2.SecurityGroup.from_security_group_id(self, f"Group{number}", group, mutable=False)
            self.instance.add_security_group(own)
        if replacements:
            # CloudFormation creates what has a new logical id, then deletes what had the old one. That works even if
            # the old instance was terminated; every other change of a terminated instance fails.
            self.instance.instance.override_logical_id(f"Head{replacements}")
        self._tag(config.name, generation)
        # The head node needs the same resources to shut down as to boot: it then terminates its nodes. CloudFormation
        # deletes in reverse order, so the network, the policies and the zone still exist then.
        self.instance.node.add_dependency(network, role, home, context.parameters, *after)
        self.record = self._record(network)
        self._alarms(instance_type)

    def _launch_template(
        self, config: ClusterConfig, generation: str, disk: Template.BlockDeviceMappingProperty
    ) -> None:
        """Only a launch template can set the throughput of an instance's disk.

        Another version or another template replaces the instance (its schema: LaunchTemplate is create-only). So each
        generation has a template of its own, whose only version is 1, and a change of the tags stays in place.
        """
        tags = {"gpucluster:cluster": config.name, **config.tags}
        own = Template.LaunchTemplateTagSpecificationProperty(
            resource_type="launch-template", tags=[cdk.CfnTag(key=key, value=value) for key, value in tags.items()]
        )
        data = Template.LaunchTemplateDataProperty(block_device_mappings=[disk])
        template = Template(self, f"Disk{generation}", launch_template_data=data, tag_specifications=[own])
        self.instance.instance.launch_template = ec2.CfnInstance.LaunchTemplateSpecificationProperty(
            launch_template_id=template.ref, version="1"
        )

    def _tag(self, cluster: str, generation: str) -> None:
        tags = cdk.Tags.of(self.instance)
        for key, value in {"cluster": cluster, "role": "head", "generation": generation}.items():
            tags.add(f"gpucluster:{key}", value)

    def _alarms(self, instance_type: InstanceType) -> None:
        # CloudWatch refuses the alarm for an instance that EC2 cannot recover (cloud-custodian issue 2935).
        remedy = "recover" if instance_type.recovered_by_alarm else None
        self._alarm("Recover", "StatusCheckFailed_System", RECOVER_AFTER_MINUTES, remedy)
        self._alarm("Reboot", "StatusCheckFailed_Instance", REBOOT_AFTER_MINUTES, "reboot")

    def _record(self, network: Network) -> route53.ARecord:
        return route53.ARecord(
            self,
            "Record",
            zone=network.zone,
            record_name="head",
            target=route53.RecordTarget.from_ip_addresses(self.instance.instance_private_ip),
            ttl=cdk.Duration.seconds(60),
        )

    def _alarm(self, id_: str, metric: str, minutes: int, action: str | None) -> None:
        """EC2's own action: `recover` moves the instance to healthy hardware, with its id, address and volumes. None:
        the alarm only tells."""
        remedy = [f"arn:{cdk.Aws.PARTITION}:automate:{cdk.Aws.REGION}:ec2:{action}"] if action else []
        cloudwatch.CfnAlarm(
            self,
            id_,
            alarm_description=f"head node: {action or 'stop and start'} it after {minutes} minutes of {metric}",
            namespace="AWS/EC2",
            metric_name=metric,
            dimensions=[
                cloudwatch.CfnAlarm.DimensionProperty(name="InstanceId", value=self.instance.instance_id),
            ],
            statistic="Maximum",
            period=60,
            evaluation_periods=minutes,
            threshold=1,
            comparison_operator="GreaterThanOrEqualToThreshold",
            treat_missing_data="missing",
            alarm_actions=[*remedy, self._topic_arn] if self._topic_arn else remedy,
        )
