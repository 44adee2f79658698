"""Findings of cdk-nag's AwsSolutions rules in our stacks that stay, and why: one row for each finding on each resource.

A user who adds the rules to the app sees only acknowledged findings:
`cdk.Validations.of(app).add_plugins(cdk_nag.AwsSolutionsChecks(app))`. A test compares the rows with the findings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import aws_cdk as cdk
from constructs import IConstruct

from gpucluster.addresses import S3, S3Uri
from gpucluster.config import ClusterConfig, construct_ids
from gpucluster.config.storage import FsxLustre
from gpucluster.render import watching
from stacks.storage import fsx_jobs


class Row(NamedTuple):
    path: str
    """The path of the resource's construct in the stack."""
    finding: str
    """The rule, and in brackets what it applies to. {name}, {region} and {account} are the stack's."""
    reason: str


COMPUTE = "ComputeRole/DefaultPolicy/Resource"
HEAD = "HeadRole/DefaultPolicy/Resource"
SNAPSHOTS = "Home/SnapshotRole/DefaultPolicy/Resource"
JOBS_ROLE = "Storage/Jobs/Role"
JOBS = f"{JOBS_ROLE}/DefaultPolicy/Resource"
INSTANCE = "Head/Instance/Resource"

ANY = "IAM5[Resource::*]"
BUNDLES = "IAM5[Resource::arn:<AWS::Partition>:s3:::cdk-hnb659fds-assets-{account}-{region}/{name}/*]"
BUNDLE_KEYS = "IAM5[Resource::arn:<AWS::Partition>:kms:{region}:*:key/*]"
PARAMETERS = "IAM5[Resource::arn:<AWS::Partition>:ssm:{region}:{account}:parameter/gpucluster/{name}/*]"
LOG = "IAM5[Resource::arn:<AWS::Partition>:logs:{{region}}:{{account}}:log-group:/gpucluster/{{name}}/{log}:*]"
EC2 = "IAM5[Resource::arn:<AWS::Partition>:ec2:{{region}}:{{account}}:{kind}/*]"

WHICH_BUNDLE = "a bundle is named after its hash; the prefix belongs to this cluster only"
WHICH_KEY = "only the account's bootstrap knows the key; a condition allows only the bundles of this cluster"
WHICH_PARAMETER = "partitions are added and removed; the path belongs to this cluster only"
WHICH_STREAM = "each instance writes its own stream in this one group"
FSX = "IAM5[Resource::arn:<AWS::Partition>:fsx:{{region}}:{{account}}:{kind}/*]"
LINK_ROLES = "IAM5[Resource::arn:<AWS::Partition>:iam::{{account}}:role/{roles}]"
OURS_BY_TAG = "EC2 assigns the ids; a condition allows only resources with the cluster's tag"
MADE_BY_LAUNCH = "RunInstances creates it; a condition allows only the cluster's own launch templates"
NO_ROTATION = "running nodes keep it in memory, and a new one would cut them off; it changes with the cluster"

ROWS = (
    Row(COMPUTE, ANY, "DescribeTags and PutMetricData: AWS has no scope for them except the namespace, which is set"),
    Row(COMPUTE, BUNDLES, WHICH_BUNDLE),
    Row(COMPUTE, BUNDLE_KEYS, WHICH_KEY),
    Row(COMPUTE, EC2.format(kind="instance"), OURS_BY_TAG),
    Row(HEAD, ANY, "ec2:Describe… and PutMetricData: AWS has no scope for them except the namespace, which is set"),
    Row(HEAD, BUNDLES, WHICH_BUNDLE),
    Row(HEAD, BUNDLE_KEYS, WHICH_KEY),
    Row(HEAD, PARAMETERS, WHICH_PARAMETER),
    Row(HEAD, EC2.format(kind="instance"), OURS_BY_TAG),
    Row(HEAD, EC2.format(kind="launch-template"), OURS_BY_TAG),
    Row(HEAD, EC2.format(kind="placement-group"), OURS_BY_TAG),
    Row(HEAD, EC2.format(kind="volume"), MADE_BY_LAUNCH),
    Row(HEAD, EC2.format(kind="network-interface"), MADE_BY_LAUNCH),
    Row(SNAPSHOTS, ANY, "DLM finds volumes by their tags: ec2:Describe… has no scope"),
    Row(
        SNAPSHOTS,
        "IAM5[Resource::arn:<AWS::Partition>:ec2:{region}::snapshot/*]",
        "EC2 assigns the snapshots' ids; DLM deletes only snapshots that it created",
    ),
    Row("MungeKey/Resource", "SMG4", NO_ROTATION),
    Row(INSTANCE, "EC26", "the rule cannot read the mapping; its only volume, the root volume, is encrypted"),
    Row(INSTANCE, "EC28", "the CloudWatch agent already measures each minute what EC2 sees, and more"),
    Row("Accounting/Password/Resource", "SMG4", "slurmdbd reads it only at boot; another one would cut it off"),
    Row("Accounting/Database", "RDS3", "accounting may stop for some minutes; a second instance doubles the cost"),
    Row("Accounting/Database", "RDS11", "only the head node reaches the port, whatever its number"),
    Row(
        "SshLoadBalancer/Balancer",
        "ELB2",
        "a network load balancer logs only TLS, which SSH is not; the rule cannot see this",
    ),
)

BUILDER_ROLE = "Role/DefaultPolicy/Resource"
BUILDER_ROWS = (
    Row(BUILDER_ROLE, BUNDLES, WHICH_BUNDLE),
    Row(BUILDER_ROLE, BUNDLE_KEYS, WHICH_KEY),
    Row(BUILDER_ROLE, PARAMETERS, "the path belongs to this stack only"),
    Row("Vpc/Resource", "VPC7", "it contains one instance, which nobody can reach and which lives for an hour at most"),
    Row("Instance/Resource", "EC28", "it installs software, is stopped and deleted; nobody reads its metrics"),
    Row("Instance/Resource", "EC29", "it is deleted as soon as its image exists"),
)


def rows(config: ClusterConfig) -> Iterator[Row]:
    """The rows above, and those that depend on the cluster file."""
    yield from ROWS
    for log in watching.shippable("compute"):
        yield Row(COMPUTE, LOG.format(log=log), WHICH_STREAM)
    for log in watching.shippable("head"):
        yield Row(HEAD, LOG.format(log=log), WHICH_STREAM)
    policies = config.security.policies
    for role, named in (("HeadRole", policies.head), ("ComputeRole", policies.nodes), (JOBS_ROLE, policies.jobs)):
        for policy in named:
            if ":iam::aws:policy/" in policy:
                yield Row(f"{role}/Resource", f"IAM4[Policy::{policy}]", "the cluster file names it: security.policies")
    if not config.head_node.snapshot_days:
        yield Row("Accounting/Database", "RDS13", "the cluster file decides: head_node.snapshot_days is 0")
    if not config.head_node.termination_protection:
        yield Row(INSTANCE, "EC29", "the cluster file decides: head_node.termination_protection")
    for partition in config.partitions:
        if partition.reservation_id:
            shared = f"arn:<AWS::Partition>:ec2:{{region}}:*:capacity-reservation/{partition.reservation_id}"
            yield Row(HEAD, f"IAM5[Resource::{shared}]", "a shared reservation is in its owner's account")
    if config.network.subnet_id:
        shared = f"arn:<AWS::Partition>:ec2:{{region}}:*:subnet/{config.network.subnet_id}"
        yield Row(HEAD, f"IAM5[Resource::{shared}]", "a shared subnet is in its owner's account")
    for system in config.lustre_with_jobs:
        path = f"Storage/{construct_ids.of_mount(system.mount)}/HeadPolicy/Resource"
        yield from _of_file_system(path, config)
        yield from _of_links(path, system)
    if config.ram:
        yield Row(f"Storage/{construct_ids.of_mount(config.ram.mount)}/ConnectionSecret/Resource", "SMG4", NO_ROTATION)
    if config.software.cache:
        prefix = str(S3Uri.of(config.software.cache)).removeprefix(S3)
        kept = f"IAM5[Resource::arn:<AWS::Partition>:s3:::{prefix}/*]"
        yield Row(COMPUTE, kept, "environments are named after their hashes; the cluster file gives their prefix")
    if config.packages_cache:
        prefix = str(S3Uri.of(config.packages_cache)).removeprefix(S3)
        kept = f"IAM5[Resource::arn:<AWS::Partition>:s3:::{prefix}/*]"
        yield Row(JOBS, kept, "packages are named after their hashes; the cluster file gives their prefix")
    for access in config.s3_access:
        prefix = str(S3Uri.of(access.uri)).removeprefix(S3)
        finding = f"IAM5[Resource::arn:<AWS::Partition>:s3:::{prefix}/*]"
        yield Row(JOBS, finding, "the cluster file gives jobs all keys with the prefix")


def _of_file_system(path: str, config: ClusterConfig) -> Iterator[Row]:
    """File systems that the head node creates for jobs."""
    yield Row(path, ANY, "fsx:Describe…: AWS has no scope for these calls")
    yield Row(path, FSX.format(kind="file-system"), "FSx assigns ids; conditions allow only this file system's tags")
    yield Row(path, FSX.format(kind="association"), "FSx assigns ids; conditions allow only this file system's tags")
    yield Row(path, LINK_ROLES.format(roles=fsx_jobs.LINK_ROLES), "FSx creates such a role for each file system")
    if config.network.vpc_id:
        shared = f"arn:<AWS::Partition>:ec2:{{region}}:*:vpc/{config.network.vpc_id}"
        yield Row(path, f"IAM5[Resource::{shared}]", "a shared subnet is in a VPC of its owner's account")


def _of_links(path: str, system: FsxLustre) -> Iterator[Row]:
    for action in dict.fromkeys((*fsx_jobs.BUCKET_ACTIONS, *fsx_jobs.OBJECT_ACTIONS)):
        if action.endswith("*"):
            yield Row(path, f"IAM5[Action::{action}]", "FSx links a bucket only for a caller who has these permissions")
    for each in system.data_repositories:
        prefix = str(S3Uri.of(each.s3)).removeprefix(S3)
        finding = f"IAM5[Resource::arn:<AWS::Partition>:s3:::{prefix}/*]"
        yield Row(path, finding, "the cluster file links all keys with the prefix")


def acknowledge(stack: cdk.Stack, name: str, those: Iterable[Row]) -> None:
    """`name`: the cluster's, or the stack's."""
    values = {"name": name, "region": stack.region, "account": stack.account}
    findings: dict[str, list[cdk.Acknowledgment]] = {}
    for row in those:
        finding = cdk.Acknowledgment(id=f"AwsSolutions-{row.finding.format_map(values)}", reason=row.reason)
        findings.setdefault(row.path, []).append(finding)
    for path, together in findings.items():
        if construct := _find(stack, path):  # resources that not every cluster has
            cdk.Validations.of(construct).acknowledge(*together)


def _find(stack: cdk.Stack, path: str) -> IConstruct | None:
    construct: IConstruct | None = stack
    for part in path.split("/"):
        construct = construct.node.try_find_child(part) if construct else None
    return construct
