"""EFS: a file system that grows with its files, mounted over TLS."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_efs as efs
from aws_cdk import aws_iam as iam
from constructs import Construct

from gpucluster.config import storage as kinds
from stacks import deletion
from stacks.context import Context
from stacks.encryption import key_arn
from stacks.storage import firewall
from stacks.storage.mounts import announce, deletion_policy, tag

NFS = (firewall.Ports("tcp", 2049),)


class Efs(Construct):
    """Stored in all of the region's zones, mounted only in the cluster's zone: traffic between zones costs money.

    If the file system is retained, its mount target is deleted all the same, so that the network can be deleted. AWS
    Backup keeps its daily backups for 35 days in both cases.
    """

    def __init__(self, scope: Construct, id_: str, *, context: Context, storage: kinds.Efs) -> None:
        super().__init__(scope, id_)
        network = context.network
        self.group = ec2.SecurityGroup(
            self,
            "Group",
            vpc=network.vpc,
            description=f"GpuCluster EFS file system {storage.mount}",
            allow_all_outbound=False,  # it only answers
        )
        for who, nodes in (("HeadToNfs", network.head), ("ComputeToNfs", network.compute)):
            firewall.admit(self, who, into=self.group, source=nodes, ports=NFS)
        self.file_system = self._file_system(context, storage)
        efs.CfnMountTarget(
            self,
            "MountTarget",
            file_system_id=self.file_system.ref,
            subnet_id=network.subnet.subnet_id,
            security_groups=[self.group.security_group_id],
        )
        tag(self, context, storage.mount)
        announce(context, storage, self._describe(context))

    def _describe(self, context: Context) -> dict[str, str]:
        suffix = cdk.Stack.of(self).url_suffix
        return {
            "file_system_id": self.file_system.ref,
            "dns_name": f"{self.file_system.ref}.efs.{context.config.region}.{suffix}",
            "access": "tls",
        }

    def _file_system(self, context: Context, storage: kinds.Efs) -> efs.CfnFileSystem:
        system = efs.CfnFileSystem(
            self,
            "Efs",  # not FileSystem, as FSx has it: CloudFormation refuses another type under the same logical id
            encrypted=True,
            kms_key_id=key_arn(context.key),
            performance_mode="generalPurpose",
            throughput_mode="elastic",
            lifecycle_policies=[
                efs.CfnFileSystem.LifecyclePolicyProperty(transition_to_ia="AFTER_30_DAYS"),
                efs.CfnFileSystem.LifecyclePolicyProperty(transition_to_primary_storage_class="AFTER_1_ACCESS"),
            ],
            backup_policy=efs.CfnFileSystem.BackupPolicyProperty(status="ENABLED"),
            file_system_policy=_over_tls_alone(),
        )
        deletion.set_policy(system, deletion_policy(retain=storage.on_delete == "retain"))
        system.cfn_options.update_replace_policy = cdk.CfnDeletionPolicy.RETAIN  # only the user may delete the files
        return system


def _over_tls_alone() -> iam.PolicyDocument:
    """Allows every client that reaches the mount target to mount, as without a policy, but only over TLS.

    The security group limits who reaches it. A mount by role would be narrower and needs amazon-efs-utils, which
    Ubuntu's archive lacks. TLS alone needs only a tunnel, and `stunnel4` is in the archive.
    """
    through_mount_target = {"Bool": {"elasticfilesystem:AccessedViaMountTarget": "true"}}
    actions = [f"elasticfilesystem:Client{name}" for name in ("Mount", "Write", "RootAccess")]
    admitted = iam.PolicyStatement(principals=[iam.AnyPrincipal()], actions=actions, conditions=through_mount_target)
    in_clear = iam.PolicyStatement(
        effect=iam.Effect.DENY,
        principals=[iam.AnyPrincipal()],
        actions=["*"],
        conditions={"Bool": {"aws:SecureTransport": "false"}},
    )
    return iam.PolicyDocument(statements=[admitted, in_clear])
