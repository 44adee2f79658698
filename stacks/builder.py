"""The machine from which a baked image is made: an instance in its own network; nothing of the stack is kept.

`gpucluster image build` deploys this stack, creates an image of the instance and deletes the stack.
"""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from constructs import Construct

from gpucluster import render
from gpucluster.baking import recipe
from gpucluster.config import ClusterConfig
from gpucluster.config.nodes import AS_USUAL
from gpucluster.hardware.instances import InstanceType
from stacks import encryption, role_names, roles
from stacks.acknowledged import BUILDER_ROWS, acknowledge
from stacks.bundle import Bundle, Parameters
from stacks.images import image_id, machine_image, root_device, root_gib

NETWORK = "10.255.255.0/28"


class ImageBuilder(cdk.Stack):
    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        config: ClusterConfig,
        account: str | None,
        base: str,
        machine: InstanceType,
    ) -> None:
        """`config.name` is the stack's name. `base`: the image to bake, as cluster.yaml names images."""
        synthesizer = cdk.DefaultStackSynthesizer(bucket_prefix=f"{config.name}/")
        super().__init__(
            scope,
            id_,
            env=cdk.Environment(account=account, region=config.region),
            description=f"GpuCluster: builds a machine image from {base}, and is deleted",
            synthesizer=synthesizer,
        )
        cdk.Tags.of(self).add("gpucluster:cluster", config.name)
        for tag, value in config.tags.items():
            cdk.Tags.of(self).add(tag, value)
        roles.bound(self, config.security.permissions_boundary_arn)
        image = machine_image(base, region=config.region)
        base_id = image_id(self, base)
        files = recipe.bundle(base_id, machine, recipe.Extras.of(config))
        version = render.version(files)
        bundle = Bundle(self, "Bundle", files=files, version=version, head_generation="", synthesizer=synthesizer)
        parameters = Parameters(self, "Parameters", path=config.ssm_path)
        role = self._role(config, bundle, parameters)
        bundle.announce(parameters)
        vpc = self._vpc(config)
        key = encryption.customer_key(self, config.security.kms_key_arn)
        self.instance = ec2.Instance(
            self,
            "Instance",
            instance_name=config.name,
            instance_type=ec2.InstanceType(machine.name),
            machine_image=image,
            user_data=ec2.UserData.custom(render.user_data(config, "image")),
            vpc=vpc,
            vpc_subnets=ec2.SubnetSelection(subnets=[vpc.public_subnets[0]]),
            associate_public_ip_address=True,
            security_group=ec2.SecurityGroup(self, "Builder", vpc=vpc, description="out, and nothing in"),
            role=role,
            http_tokens=ec2.HttpTokens.REQUIRED,
            http_put_response_hop_limit=1,
            block_devices=[root_device(key, root_gib(config, base, baked=False, root=AS_USUAL))],
            propagate_tags_to_volume_on_creation=True,
        )
        cdk.Tags.of(self.instance).add("gpucluster:role", "image")
        self.instance.node.add_dependency(parameters, role, vpc)
        bundle.wait_until_live(self.instance)
        cdk.CfnOutput(self, "InstanceId", value=self.instance.instance_id)
        cdk.CfnOutput(self, "BaseImage", value=base_id)
        role_names.apply(self, config.security.role_prefix, config.name)
        acknowledge(self, config.name, BUILDER_ROWS)

    def _role(self, config: ClusterConfig, bundle: Bundle, parameters: Parameters) -> iam.Role:
        role = roles.node_role(self, "Role")
        roles.grant_bundles(role, bundle.objects_arn(config.name))
        roles.allow(role, ["ssm:GetParameter"], [parameters.arn])
        return role

    def _vpc(self, config: ClusterConfig) -> ec2.Vpc:
        """One public subnet: a NAT gateway takes minutes to create, and the security group admits nobody."""
        public = ec2.SubnetConfiguration(name="Public", subnet_type=ec2.SubnetType.PUBLIC, cidr_mask=28)
        return ec2.Vpc(
            self,
            "Vpc",
            ip_addresses=ec2.IpAddresses.cidr(NETWORK),
            availability_zones=[config.availability_zone or self.availability_zones[0]],
            nat_gateways=0,
            subnet_configuration=[public],
            restrict_default_security_group=False,
        )
