"""The stack: creates the constructs, connects them, grants permissions and defines the outputs.

Constructs that few clusters have are imported where a cluster has them: loading CDK's libraries takes longer than using
them.
"""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from gpucluster import render, updates
from gpucluster.baking import pins
from gpucluster.config import ClusterConfig
from gpucluster.config.construct_ids import pascal
from gpucluster.config.door import pinned as find_door
from gpucluster.config.scripts import minutes
from gpucluster.layout import expand
from stacks import encryption, record, role_names, roles
from stacks.acknowledged import acknowledge, rows
from stacks.bundle import Bundle, Parameters
from stacks.context import Context
from stacks.head import HeadNode, generation
from stacks.images import image_id, root_gib
from stacks.monitoring import Monitoring
from stacks.network import Network
from stacks.partitions import Partitions
from stacks.placeholders import NO_ACCOUNT
from stacks.storage import Storage
from stacks.storage.home import HomeVolume
from stacks.storage.s3_access import grant_environments, grant_scripts
from stacks.tags import refusing


class GpuCluster(cdk.Stack):
    def __init__(self, scope: Construct, id_: str, *, config: ClusterConfig, account: str | None = None) -> None:
        # Bundles have their own prefix, so that nodes can read these and not every asset of the account.
        synthesizer = cdk.DefaultStackSynthesizer(bucket_prefix=f"{config.name}/")
        super().__init__(
            scope,
            id_,
            env=cdk.Environment(account=account or NO_ACCOUNT, region=config.region),
            description=f"GpuCluster {config.name}: Slurm head node, elastic GPU partitions",
            termination_protection=config.head_node.termination_protection,
            synthesizer=synthesizer,
            # A third of a template is whitespace, which counts towards CloudFormation's limit.
            suppress_template_indentation=True,
        )
        self._config, self.layout = config, expand(config)
        # Every resource has the tag: roles are limited by it, and a budget counts by it.
        cdk.Tags.of(self).add("gpucluster:cluster", config.name)
        for tag, value in config.tags.items():
            cdk.Tags.of(self).add(tag, value, exclude_resource_types=refusing(tag))
        self.key = encryption.customer_key(self, config.security.kms_key_arn)
        roles.bound(self, config.security.permissions_boundary_arn)
        entries = pins.read(config._document.file)
        zone = config.availability_zone or self.availability_zones[0]
        door = find_door(entries, config, self.account)
        self.network = Network(self, "Network", config=config, availability_zone=zone, door=door)
        key = updates.replacements_key(config.name, account=self.account, region=config.region)
        self.replacements = int(entries.get(key, 0))
        record.keep(self, self.layout, availability_zone=zone, head_replacements=self.replacements)
        self.bundle = self._bundle(synthesizer)
        self.munge_key = self._munge_key()
        self.home = self._home()
        self.compute_role = roles.node_role(self, "ComputeRole", config.security.policies.nodes)
        self.head_role = roles.node_role(self, "HeadRole", config.security.policies.head)
        self.partitions = Partitions(
            self, "Partitions", layout=self.layout, network=self.network, role=self.compute_role, key=self.key
        )
        self.parameters = Parameters(self, "Parameters", path=config.ssm_path)
        context = Context(self.layout, self.network, self.head_role, self.compute_role, self.key, self.parameters)
        self.storage = Storage(self, "Storage", context=context)
        accounts = self._accounts(context)
        self._announce()
        self._grant()
        self.monitoring = Monitoring(self, "Monitoring", context=context, file_systems=self.storage.file_systems)
        needs = [self.munge_key, self.compute_role, self.storage, *accounts, self.monitoring.logs]
        self.bundle.announce_to_nodes(self.parameters, *needs)
        self.bundle.announce(self.parameters, self.network, self.head_role, self.home, *needs)
        self.head = self._head(context, needs)
        self._budget(context)
        scripts_s = minutes(config.head_node.scripts) * 60
        live = self.bundle.wait_until_live(self.head, self.parameters, scripts_s=scripts_s)
        self.monitoring.watch_from(live)
        self.ssh_host = self._ssh_load_balancer()
        self._outputs()
        role_names.apply(self, config.security.role_prefix, config.name)
        acknowledge(self, config.name, rows(config))

    def _accounts(self, context: Context) -> list[Construct]:
        """A database on the head node needs nothing of AWS."""
        if self._config.accounting != "rds":
            return []
        from stacks.accounting import Accounting

        return [Accounting(self, "Accounting", context=context)]

    def _head(self, context: Context, after: list[Construct]) -> HeadNode:
        return HeadNode(
            self,
            "Head",
            context=context,
            home=self.home,
            generation=self.head_generation,
            replacements=self.replacements,
            after=after,
            topic_arn=self.monitoring.topic_arn,
        )

    def _budget(self, context: Context) -> None:
        if self._config.budget:
            from stacks.budget import Budget

            Budget(self, "Budget", context=context, budget=self._config.budget)

    def _bundle(self, synthesizer: cdk.DefaultStackSynthesizer) -> Bundle:
        network, files = self._config.network, render.bundle(self._config)
        places = (self.network.availability_zone, network.vpc_cidr, network.vpc_id, network.subnet_id)
        again = [str(self.replacements)] if self.replacements else []
        image = image_id(self, self.layout.head_image)
        head = self._config.head_node
        gib = root_gib(self._config, self.layout.head_image, baked=False, root=head.root_volume)
        # CloudFormation replaces an instance to change its network interface.
        own = (*places, *head.security_groups, *again)
        self.head_generation = generation(image, self._config.security.kms_key_arn, *own, gib=gib, head=head)
        return Bundle(
            self,
            "Bundle",
            files=files,
            version=render.version(files),
            head_generation=self.head_generation,
            synthesizer=synthesizer,
        )

    def _home(self) -> HomeVolume:
        head_node = self._config.head_node
        return HomeVolume(
            self,
            "Home",
            cluster=self._config.name,
            availability_zone=self.network.availability_zone,
            size_gib=head_node.volume_gib,
            on_delete=head_node.on_delete,
            snapshot_days=head_node.snapshot_days,
            snapshot_id=head_node.snapshot_id,
            key=self.key,
        )

    def _munge_key(self) -> secretsmanager.Secret:
        return secretsmanager.Secret(
            self,
            "MungeKey",
            description="what the nodes of the cluster know each other by",
            encryption_key=self.key,
            generate_secret_string=secretsmanager.SecretStringGenerator(password_length=128, exclude_punctuation=True),
            removal_policy=cdk.RemovalPolicy.DESTROY,
        )

    def _ssh_load_balancer(self) -> str | None:
        """The load balancer for the networks in `ssh_from`."""
        public, sources = self.network.public_subnet, self._config.network.ssh_from
        if not (public and sources):
            return None
        from stacks.ssh_load_balancer import SshLoadBalancer

        instance_id = self.head.instance.instance_id
        return SshLoadBalancer(
            self,
            "SshLoadBalancer",
            network=self.network,
            public_subnet=public,
            instance_id=instance_id,
            sources=sources,
        ).host

    def _announce(self) -> None:
        """Writes values that exist only after deployment to the parameters that nodes read."""
        subnet_id = self.network.subnet.subnet_id
        self.parameters.add(
            "Network",
            "network",
            {
                "hosted_zone_id": self.network.zone.hosted_zone_id,
                "zone": self._config.zone,
                "subnet_id": subnet_id,
                "availability_zone": self.network.availability_zone,
            },
        )
        self.parameters.add(
            "Head",
            "head",
            {
                "munge_secret_arn": self.munge_key.secret_arn,
                "volume_id": self.home.volume.volume_id,
                "device": self.home.device,
            },
        )
        for partition in self.partitions:
            value = {"instance_types": partition.describe(), "subnet_id": subnet_id}
            self.parameters.add(f"Partition{pascal(partition.name)}", f"partitions/{partition.name}", value)

    def _grant(self) -> None:
        bundles = self.bundle.objects_arn(self._config.name)
        for_nodes = [*roles.READ_BY_NODES, *(each.parameter for each in self._config.storage)]
        readable = {
            self.head_role: [self.parameters.arn],
            self.compute_role: [self.parameters.arn_of(name) for name in for_nodes],
        }
        for role, parameters in readable.items():
            roles.grant_boot(role, bundles=bundles, parameters=parameters, munge_key=self.munge_key)
            encryption.grant_secrets(role, self.key)
        encryption.grant_volumes(self.head_role, self.key)
        self.home.grant_attach(self.head_role)
        roles.grant_compute(self.compute_role, cluster=self._config.name)
        if cache := self._config.software.cache:
            grant_environments(self.compute_role, cache, self.key)
        grant_scripts(self.head_role, self._config.head_node.scripts, self.key)
        grant_scripts(self.compute_role, (s for each in self.layout.partitions for s in each.scripts), self.key)
        roles.grant_head(
            self.head_role,
            cluster=self._config.name,
            network=self.network,
            partitions=self.partitions.all,
            compute_role=self.compute_role,
            # The head node overwrites this value at its first boot; CloudFormation does not compare it again.
            host_key=self.parameters.add("HostKey", "host-key", "pending"),
        )

    def _outputs(self) -> None:
        instance = self.head.instance
        values = {
            "HeadInstanceId": instance.instance_id,
            "HeadPrivateIp": instance.instance_private_ip,
            "InstanceConnectEndpointId": self.network.endpoint_id,
            "Zone": self._config.zone,
            "SsmPath": self._config.ssm_path,
            "BundleVersion": self.bundle.version,
        }
        if self.ssh_host:
            values["SshHost"] = self.ssh_host
        for name, value in values.items():
            cdk.CfnOutput(self, name, value=value)
