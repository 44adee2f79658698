"""What the head node may do at FSx: make the file systems that live with jobs, link them to S3, and delete them.

Actions, resources and condition keys: Service Authorization Reference, Amazon FSx. FSx lets nobody narrow what its
requests say beyond their tags: the role could make a larger file system than its parameter says.
"""

from __future__ import annotations

from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_iam as iam

from gpucluster.config import lustre, lustre_requests, models
from stacks import encryption
from stacks.context import Context
from stacks.roles import allow

FSX_ROLE = "aws-service-role/fsx.amazonaws.com/AWSServiceRoleForAmazonFSx"
"""An account that never used FSx lacks it; the first file system makes it."""
LINK_ROLES = "aws-service-role/s3.data-source.lustre.fsx.amazonaws.com/*"
"""One for each file system with links. FSx makes it in the caller's name, and so gives it its policies: FSx user guide,
Adding permissions to use data repositories in Amazon S3."""
TAGS = ("Name", "gpucluster:cluster")


def grant(context: Context) -> None:
    """Nothing, where no file system lives with jobs."""
    storages = context.config.lustre_with_jobs
    if storages:
        _grant_file_systems(context, [lustre_requests.tagged_name(each.mount, context.config.name) for each in storages])
        _grant_links(context.head_role, storages)
        if any(lustre.persistent(each) for each in storages):
            encryption.grant_file_systems(context.head_role, context.key)


def _grant_file_systems(context: Context, names: Sequence[str]) -> None:
    """By name too: a file system that lives as long as the cluster has the cluster's tag, and is not the head's."""
    role, cluster = context.head_role, context.config.name
    systems, links = (_arn(role, "fsx", f"{kind}/*") for kind in ("file-system", "association"))
    ours, becomes_ours = (
        {"StringEquals": {f"aws:{which}/gpucluster:cluster": cluster, f"aws:{which}/Name": list(names)}}
        for which in ("ResourceTag", "RequestTag")
    )
    allow(role, ["fsx:DescribeFileSystems", "fsx:DescribeDataRepositoryAssociations"], ["*"])  # AWS has no scope
    allow(role, ["fsx:CreateFileSystem"], [systems], becomes_ours)
    # FSx has no condition that tells the tags of what is being made from later ones; no other tags can be set.
    these = {"ForAllValues:StringEquals": {"aws:TagKeys": list(TAGS)}}
    allow(role, ["fsx:TagResource"], [systems, links], {**becomes_ours, **these})
    allow(role, ["fsx:CreateDataRepositoryAssociation", "fsx:DeleteFileSystem"], [systems], ours)
    allow(role, ["fsx:CreateDataRepositoryAssociation"], [links], becomes_ours)
    # FSx looks whether the security group is one of the VPC's. A subnet that is shared is in its owner's VPC.
    owner = "*" if context.network.exists else None
    allow(role, ["ec2:GetSecurityGroupsForVpc"], [_arn(role, "ec2", f"vpc/{context.network.vpc.vpc_id}", owner)])


def _grant_links(role: iam.Role, storages: Sequence[models.FsxLustre]) -> None:
    """What FSx does in the caller's name when it links to S3: its roles, and a look at the buckets."""
    allow(role, ["iam:CreateServiceLinkedRole"], [_role_arn(role, FSX_ROLE)], _by("fsx.amazonaws.com"))
    actions = ["iam:CreateServiceLinkedRole", "iam:AttachRolePolicy", "iam:PutRolePolicy"]
    allow(role, actions, [_role_arn(role, LINK_ROLES)])
    # As the permissions of AWS::FSx::DataRepositoryAssociation in CloudFormation's registry say.
    uris = (each.s3.removeprefix("s3://") for storage in storages for each in storage.data_repositories)
    buckets = dict.fromkeys(uri.partition("/")[0] for uri in uris)
    arns = [_arn(role, "s3", bucket, "", region="") for bucket in buckets]
    allow(role, ["s3:ListBucket"], arns)


def _by(service: str) -> dict[str, object]:
    return {"StringEquals": {"iam:AWSServiceName": service}}


def _role_arn(role: iam.Role, name: str) -> str:
    return _arn(role, "iam", f"role/{name}", region="")


def _arn(role: iam.Role, service: str, resource: str, account: str | None = None, *, region: str | None = None) -> str:
    return cdk.Stack.of(role).format_arn(service=service, account=account, region=region, resource=resource)
