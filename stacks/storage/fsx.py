"""FSx for Lustre: the file system, its security group, and its links to S3."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_fsx as fsx
from aws_cdk import aws_logs as logs
from constructs import Construct

from gpucluster.config import construct_ids
from gpucluster.config import storage as kinds
from gpucluster.config.storage.fsx import lustre, requests
from stacks import deletion
from stacks.arns import arn
from stacks.context import Context
from stacks.encryption import key_arn
from stacks.monitoring import metrics as watching
from stacks.storage import firewall
from stacks.storage.fsx_jobs import HeadPolicy
from stacks.storage.mounts import announce, deletion_policy, keep_network, tag

LUSTRE = (firewall.Ports("tcp", 988), firewall.Ports("tcp", 1018, 1023))

FileSystem = fsx.CfnFileSystem
Association = fsx.CfnDataRepositoryAssociation


class FsxLustre(Construct):
    """Nodes mount it by the names in its parameter and call no AWS API, so they need no permissions.

    The head node creates and deletes a file system with `lifetime: jobs`; this construct then creates only resources
    without cost, see fsx_jobs.
    """

    def __init__(self, scope: Construct, id_: str, *, context: Context, storage: kinds.FsxLustre) -> None:
        super().__init__(scope, id_)
        self._context = context
        self._storage = storage
        self._retain = storage.on_delete == "retain"
        self.group = ec2.SecurityGroup(
            self,
            "Group",
            vpc=context.network.vpc,
            description=f"GpuCluster Lustre file system {storage.mount}",
            allow_all_outbound=False,
        )
        self._admit_nodes()
        self._log = self._log_group() if storage.data_repositories else None
        self.file_system: FileSystem | None = None
        """None: the head node creates it when the first job needs it."""
        self.watched: tuple[watching.FileSystem, ...] = ()
        """The file system that alarms watch. One with `lifetime: jobs` has a new id each time, and so no alarms."""
        if storage.lifetime == "jobs":
            HeadPolicy(self, "HeadPolicy", context=context, storage=storage)
            announce(context, storage, self._requests())
        else:
            self.file_system = self._file_system()
            self.watched = (watching.FileSystem(storage.mount, self.file_system.ref, storage.capacity_gib),)
            self._link_all(self.file_system)
            announce(context, storage, self._describe(self.file_system))
        if self._retain:
            # Its interfaces would prevent the deletion of subnet, VPC and group, so these are retained with it.
            deletion.retain(self.group)
            keep_network(context.network)
        tag(self, context, storage.mount)

    def _requests(self) -> dict[str, Any]:
        resources = requests.Resources(
            subnet_id=self._context.network.subnet.subnet_id,
            group_id=self.group.security_group_id,
            log_group_arn=self._log_arn(self._log) if self._log else "",
            key_arn=key_arn(self._context.key),
        )
        return requests.parameter(self._storage, self._context.config.name, resources)

    def _link_all(self, file_system: FileSystem) -> None:
        """One after another: FSx fails if several links of a file system are created or changed at once."""
        links = [self._link(file_system, repository) for repository in self._storage.data_repositories]
        for before, link in pairwise(links):
            link.node.add_dependency(before)

    def _describe(self, file_system: FileSystem) -> dict[str, str | bool]:
        return {
            "file_system_id": file_system.ref,
            "dns_name": file_system.attr_dns_name,
            "mount_name": file_system.attr_lustre_mount_name,
            "efa": self._storage.efa,
            "version": lustre.VERSION,
        }

    def _admit_nodes(self) -> None:
        """Servers call clients back, so rules go in both directions. EFA's traffic needs rules that name the groups;
        see Network.

        FSx checks the group of an EFA-enabled file system when it creates it, so all rules come first.
        """
        head, compute = self._context.network.head, self._context.network.compute
        inner = (firewall.ALL,) if self._storage.efa else LUSTRE
        own = [
            *firewall.admit(self, "Servers", into=self.group, source=self.group, ports=inner),
            *firewall.let_out(self, "Servers", of=self.group, destination=self.group, ports=inner),
        ]
        if self._retain:
            for rule in own:
                deletion.retain(rule)
        for who, nodes, ports in (("Head", head, LUSTRE), ("Compute", compute, inner)):
            firewall.admit(self, f"{who}ToLustre", into=self.group, source=nodes, ports=ports)
            firewall.let_out(self, f"LustreTo{who}", of=self.group, destination=nodes, ports=ports)
            firewall.admit(self, f"LustreTo{who}", into=nodes, source=self.group, ports=ports)
        if self._storage.efa:
            firewall.let_out(self, "ComputeToLustre", of=compute, destination=self.group, ports=(firewall.ALL,))

    def _log_group(self) -> logs.CfnLogGroup:
        """Lustre logs only errors between it and S3 there.

        The name must have this prefix. FSx writes with its service-linked role, whose own policy has that prefix
        (AmazonFSxServiceRolePolicy), so the group needs no policy. A file system that is retained logs on, so its group
        is retained too, with a unique name: it must not be in the way of the next cluster with this name.
        """
        unique = f"-{cdk.Fn.select(2, cdk.Fn.split('/', cdk.Stack.of(self).stack_id))}" if self._retain else ""
        group = logs.CfnLogGroup(
            self,
            "Log",
            log_group_name=f"/aws/fsx/{self._context.config.name}{self._storage.mount}{unique}",
            retention_in_days=self._context.config.monitoring.log_days,
            kms_key_id=key_arn(self._context.key),
        )
        if self._retain:
            deletion.retain(group)
        else:
            group.apply_removal_policy(cdk.RemovalPolicy.DESTROY)
        return group

    def _file_system(self) -> FileSystem:
        storage = self._storage
        persistent = lustre.persistent(storage)
        system = FileSystem(
            self,
            "FileSystem",
            file_system_type="LUSTRE",
            file_system_type_version=lustre.VERSION,
            storage_type="SSD",
            storage_capacity=storage.capacity_gib,
            subnet_ids=[self._context.network.subnet.subnet_id],
            security_group_ids=[self.group.security_group_id],
            kms_key_id=key_arn(self._context.key) if persistent else None,  # FSx's own key encrypts scratch
            lustre_configuration=self._lustre(),
        )
        deletion.set_policy(system, deletion_policy(retain=self._retain))
        # Some changes replace the file system. Only the user may delete the old one and its contents.
        system.cfn_options.update_replace_policy = cdk.CfnDeletionPolicy.RETAIN
        rules = [child for child in self.node.children if isinstance(child, cdk.CfnResource) and _is_rule(child)]
        system.node.add_dependency(*rules, *([self._log] if self._log else []))
        return system

    def _lustre(self) -> FileSystem.LustreConfigurationProperty:
        storage = self._storage
        persistent = lustre.persistent(storage)
        return FileSystem.LustreConfigurationProperty(
            deployment_type=lustre.deployment_type(storage),
            per_unit_storage_throughput=lustre.throughput_mbps_per_tib(storage),
            data_compression_type=storage.compression.upper(),
            efa_enabled=True if storage.efa else None,
            metadata_configuration=_metadata(storage) if storage.deployment == "persistent-2" else None,
            # 0 must be explicit: without it an update keeps the days, and FSx links nothing to a file system with
            # backups.
            automatic_backup_retention_days=storage.backup_days if persistent else None,
            log_configuration=self._logging(self._log) if self._log else None,
        )

    def _logging(self, group: logs.CfnLogGroup) -> FileSystem.LogConfigurationProperty:
        return FileSystem.LogConfigurationProperty(level=lustre.LOG_LEVEL, destination=self._log_arn(group))

    def _log_arn(self, group: logs.CfnLogGroup) -> str:
        """Without the `:*` at the end of the group's own attribute: FSx's documentation shows none."""
        return arn(self, "logs", f"log-group:{group.log_group_name}")

    def _link(self, file_system: FileSystem, repository: kinds.DataRepository) -> Association:
        """FSx reads and writes the bucket with a service-linked role for each link, which FSx creates itself.

        CloudFormation's role needs iam:CreateServiceLinkedRole and iam:PutRolePolicy for it; CDK's role has all
        permissions.
        """
        association = Association(
            self,
            construct_ids.of_repository(repository.path),
            file_system_id=file_system.ref,
            file_system_path=lustre.linked_path(repository),
            data_repository_path=repository.s3,
            batch_import_meta_data_on_create=True,
            s3=_events(repository),
        )
        # Deleting the link keeps the files. A file system that is retained keeps its link.
        deletion.set_policy(association, deletion_policy(retain=self._retain))
        return association


def _is_rule(resource: cdk.CfnResource) -> bool:
    return isinstance(resource, ec2.CfnSecurityGroupIngress | ec2.CfnSecurityGroupEgress)


def _metadata(storage: kinds.FsxLustre) -> FileSystem.MetadataConfigurationProperty:
    """Always present: EFA needs it, and a file system created without it can never get more metadata operations."""
    if storage.metadata_iops is None:
        return FileSystem.MetadataConfigurationProperty(mode="AUTOMATIC")
    return FileSystem.MetadataConfigurationProperty(mode="USER_PROVISIONED", iops=storage.metadata_iops)


def _events(repository: kinds.DataRepository) -> Association.S3Property | None:
    imported, exported = ([event.upper() for event in events] for events in (repository.import_, repository.export))
    if not imported and not exported:
        return None
    return Association.S3Property(
        auto_import_policy=Association.AutoImportPolicyProperty(events=imported) if imported else None,
        auto_export_policy=Association.AutoExportPolicyProperty(events=exported) if exported else None,
    )
