"""The head node's permissions in FSx for a file system with `lifetime: jobs`: to create it, link it to S3 and delete
it.

Actions, resources and condition keys: Service Authorization Reference, Amazon FSx. FSx can limit a request only by its
tags, so the role could create a larger file system than its parameter says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from aws_cdk import aws_iam as iam
from constructs import Construct

from gpucluster.addresses import S3Uri
from gpucluster.config import storage as kinds
from gpucluster.config.storage.fsx import lustre
from stacks import encryption
from stacks.arns import arn, s3_arn
from stacks.context import Context
from stacks.storage import s3_access

FSX_ROLE = "aws-service-role/fsx.amazonaws.com/AWSServiceRoleForAmazonFSx"
"""An account that has never used FSx lacks this role; the first file system creates it."""
LINK_ROLES = "aws-service-role/s3.data-source.lustre.fsx.amazonaws.com/*"
"""One role for each file system with links. FSx creates it in the caller's name, with its policies: FSx user guide,
Adding permissions to use data repositories in Amazon S3."""
TAGS = ("Name", "gpucluster:cluster")
BUCKET_ACTIONS = ("s3:Get*", "s3:List*")
OBJECT_ACTIONS = ("s3:Get*", "s3:PutObject")


class HeadPolicy(iam.ManagedPolicy):
    """A policy of its own, because the role's inline policies together have at most 10,240 characters, and there may be
    fifty partitions."""

    def __init__(self, scope: Construct, id_: str, *, context: Context, storage: kinds.FsxLustre) -> None:
        description = f"GpuCluster head node: make and delete {storage.mount}"
        super().__init__(scope, id_, description=description, roles=[context.head_role])
        self._on_file_systems(context, storage)
        self._on_links(context, storage)
        if lustre.persistent(storage):
            encryption.grant_file_systems(self, context.key)

    def _on_file_systems(self, context: Context, storage: kinds.FsxLustre) -> None:
        """Limited by name too: a file system that lives as long as the cluster has the cluster's tag, but the head node
        must not delete it."""
        cluster, name = context.config.name, storage.tagged_name(context.config.name)
        systems, links = (arn(self, "fsx", f"{kind}/*") for kind in ("file-system", "association"))
        ours, becomes_ours = (
            {"StringEquals": {f"aws:{which}/gpucluster:cluster": cluster, f"aws:{which}/Name": name}}
            for which in ("ResourceTag", "RequestTag")
        )
        self._allow(["fsx:DescribeFileSystems", "fsx:DescribeDataRepositoryAssociations"], ["*"])  # AWS has no scope
        self._allow(["fsx:CreateFileSystem"], [systems], becomes_ours)
        # FSx has no condition that tells tags at creation from later tags; no other tags can be set.
        these = {"ForAllValues:StringEquals": {"aws:TagKeys": [*TAGS, *context.config.tags]}}
        self._allow(["fsx:TagResource"], [systems, links], {**becomes_ours, **these})
        self._allow(["fsx:CreateDataRepositoryAssociation", "fsx:DeleteFileSystem"], [systems], ours)
        self._allow(["fsx:CreateDataRepositoryAssociation"], [links], becomes_ours)
        # FSx checks whether the security group is in the VPC. A shared subnet is in its owner's VPC.
        owner = "*" if context.network.exists else None
        vpc = arn(self, "ec2", f"vpc/{context.network.vpc.vpc_id}", account=owner)
        self._allow(["ec2:GetSecurityGroupsForVpc"], [vpc])

    def _on_links(self, context: Context, storage: kinds.FsxLustre) -> None:
        """FSx's roles, and the buckets. FSx refuses a link if its caller lacks these permissions in S3.

        FSx for Lustre user guide, "Unable to validate access to an S3 bucket when creating a DRA": s3:Get*, s3:List*
        and s3:PutObject. AWS ParallelCluster gives its own role the same (aws/aws-parallelcluster pull request 4199).
        """
        by_fsx = {"StringEquals": {"iam:AWSServiceName": "fsx.amazonaws.com"}}
        self._allow(["iam:CreateServiceLinkedRole"], [self._role(FSX_ROLE)], by_fsx)
        actions = ["iam:CreateServiceLinkedRole", "iam:AttachRolePolicy", "iam:PutRolePolicy"]
        self._allow(actions, [self._role(LINK_ROLES)])
        linked = [S3Uri.of(each.s3) for each in storage.data_repositories]
        buckets = dict.fromkeys(each.bucket for each in linked)
        self._allow(BUCKET_ACTIONS, [s3_arn(self, bucket) for bucket in buckets])
        self._allow(OBJECT_ACTIONS, [s3_arn(self, s3_access.objects(each)[-1]) for each in linked])
        encryption.grant_objects(context.head_role, context.key, write=True)

    def _allow(
        self, actions: Sequence[str], resources: Sequence[str], conditions: Mapping[str, Any] | None = None
    ) -> None:
        statement = iam.PolicyStatement(actions=list(actions), resources=list(resources), conditions=conditions)
        self.add_statements(statement)

    def _role(self, name: str) -> str:
        return arn(self, "iam", f"role/{name}", region="")
