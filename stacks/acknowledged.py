"""What cdk-nag's AwsSolutions rules find in our stacks and why it stays: one row for each finding on each resource.

A user who adds the rules to the app sees these acknowledged, and nothing else:
`cdk.Validations.of(app).add_plugins(cdk_nag.AwsSolutionsChecks(app))`. A test holds the rows to what the rules find.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import aws_cdk as cdk
from constructs import IConstruct

from gpucluster.addresses import S3, S3Uri
from gpucluster.config import ClusterConfig, construct_ids
from gpucluster.render import watching
from stacks.storage import fsx_jobs


class Row(NamedTuple):
    path: str
    """Of the resource's construct, in the stack."""
    finding: str
    """The rule, and in brackets what it applies to. {name}, {region} and {account} are the stack's."""
    reason: str


COMPUTE = "ComputeRole/DefaultPolicy/Resource"
HEAD = "HeadRole/DefaultPolicy/Resource"
SNAPSHOTS = "Home/SnapshotRole/DefaultPolicy/Resource"
JOBS = "Storage/Jobs/Role/DefaultPolicy/Resource"
INSTANCE = "Head/Instance/Resource"

ANY = "IAM5[Resource::*]"
BUNDLES = "IAM5[Resource::arn:<AWS::Partition>:s3:::cdk-hnb659fds-assets-{account}-{region}/{name}/*]"
PARAMETERS = "IAM5[Resource::arn:<AWS::Partition>:ssm:{region}:{account}:parameter/gpucluster/{name}/*]"
LOG = "IAM5[Resource::arn:<AWS::Partition>:logs:{{region}}:{{account}}:log-group:/gpucluster/{{name}}/{log}:*]"
EC2 = "IAM5[Resource::arn:<AWS::Partition>:ec2:{{region}}:{{account}}:{kind}/*]"

WHICH_BUNDLE = "a bundle is named after its hash; the prefix is this cluster's alone"
WHICH_PARAMETER = "partitions come and go; the path is this cluster's alone"
WHICH_STREAM = "each instance writes a stream of its own in this one group"
FSX = "IAM5[Resource::arn:<AWS::Partition>:fsx:{{region}}:{{account}}:{kind}/*]"
LINK_ROLES = "IAM5[Resource::arn:<AWS::Partition>:iam::{{account}}:role/{roles}]"
OURS_BY_TAG = "ids are of EC2's making; a condition holds this to what has the cluster's tag"
MADE_BY_LAUNCH = "made by RunInstances, which a condition holds to the cluster's own launch templates"
NO_ROTATION = "nodes that run have it in memory: another one would cut them off. It changes with the cluster"

ROWS = (
    Row(COMPUTE, ANY, "DescribeTags and PutMetricData: AWS has no scope for them but the namespace, which is given"),
    Row(COMPUTE, BUNDLES, WHICH_BUNDLE),
    Row(COMPUTE, PARAMETERS, WHICH_PARAMETER),
    Row(COMPUTE, EC2.format(kind="instance"), OURS_BY_TAG),
    Row(HEAD, ANY, "ec2:Describe… and PutMetricData: AWS has no scope for them but the namespace, which is given"),
    Row(HEAD, BUNDLES, WHICH_BUNDLE),
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
        "snapshots have ids of EC2's making; DLM deletes those that it made",
    ),
    Row("MungeKey/Resource", "SMG4", NO_ROTATION),
    Row(INSTANCE, "EC26", "the rule cannot read the mapping: its one volume, the root, is encrypted"),
    Row(INSTANCE, "EC28", "the CloudWatch agent measures each minute already, what EC2 sees and more"),
    Row("Accounting/Password/Resource", "SMG4", "slurmdbd reads it at boot alone: another one would cut it off"),
    Row("Accounting/Database", "RDS3", "accounts may be late for some minutes; a second instance costs as much again"),
    Row("Accounting/Database", "RDS11", "only the head node reaches the port, whatever its number"),
    Row("WayIn/Balancer", "ELB2", "a network load balancer logs TLS only, and SSH is none; the rule cannot read it"),
)

BUILDER_ROLE = "Role/DefaultPolicy/Resource"
BUILDER_ROWS = (
    Row(BUILDER_ROLE, BUNDLES, WHICH_BUNDLE),
    Row(BUILDER_ROLE, PARAMETERS, "the path is that of this stack alone"),
    Row("Vpc/Resource", "VPC7", "one instance is in it, which nobody can reach, and it goes within the hour"),
    Row("Instance/Resource", "EC28", "it installs, is stopped and deleted: nobody looks at its measurements"),
    Row("Instance/Resource", "EC29", "it is there to be deleted, as soon as its image is made"),
)


def rows(config: ClusterConfig) -> Iterator[Row]:
    """Those above, and what follows from the cluster file."""
    yield from ROWS
    for log in watching.shippable("compute"):
        yield Row(COMPUTE, LOG.format(log=log), WHICH_STREAM)
    for log in watching.shippable("head"):
        yield Row(HEAD, LOG.format(log=log), WHICH_STREAM)
    if not config.head_node.snapshot_days:
        yield Row("Accounting/Database", "RDS13", "the cluster file decides: head_node.snapshot_days is 0")
    if not config.head_node.termination_protection:
        yield Row(INSTANCE, "EC29", "the cluster file decides: head_node.termination_protection")
    for partition in config.partitions:
        if partition.reservation_id:
            shared = f"arn:<AWS::Partition>:ec2:{{region}}:*:capacity-reservation/{partition.reservation_id}"
            yield Row(HEAD, f"IAM5[Resource::{shared}]", "a reservation that is shared is in its owner's account")
    if config.network.subnet_id:
        shared = f"arn:<AWS::Partition>:ec2:{{region}}:*:subnet/{config.network.subnet_id}"
        yield Row(HEAD, f"IAM5[Resource::{shared}]", "a subnet that is shared is in its owner's account")
    for system in config.lustre_with_jobs:
        yield from _of_file_system(f"Storage/{construct_ids.of_mount(system.mount)}/HeadPolicy/Resource", config)
    if config.ram:
        yield Row(f"Storage/{construct_ids.of_mount(config.ram.mount)}/ConnectionSecret/Resource", "SMG4", NO_ROTATION)
    if config.software.cache:
        prefix = str(S3Uri.of(config.software.cache)).removeprefix(S3)
        kept = f"IAM5[Resource::arn:<AWS::Partition>:s3:::{prefix}/*]"
        yield Row(COMPUTE, kept, "environments are named after their hashes; the cluster file gives their prefix")
    for access in config.s3_access:
        prefix = str(S3Uri.of(access.uri)).removeprefix(S3)
        finding = f"IAM5[Resource::arn:<AWS::Partition>:s3:::{prefix}/*]"
        yield Row(
            "Storage/Jobs/Role/DefaultPolicy/Resource", finding, "the cluster file gives jobs all below the prefix"
        )


def _of_file_system(path: str, config: ClusterConfig) -> Iterator[Row]:
    """That the head node makes for jobs."""
    yield Row(path, ANY, "fsx:Describe…: AWS has no scope for these calls")
    yield Row(path, FSX.format(kind="file-system"), "ids are of FSx's making; conditions hold this to tags of this one")
    yield Row(path, FSX.format(kind="association"), "ids are of FSx's making; conditions hold this to tags of this one")
    yield Row(path, LINK_ROLES.format(roles=fsx_jobs.LINK_ROLES), "FSx makes such a role of its own for each")
    if config.network.vpc_id:
        shared = f"arn:<AWS::Partition>:ec2:{{region}}:*:vpc/{config.network.vpc_id}"
        yield Row(path, f"IAM5[Resource::{shared}]", "a subnet that is shared is in a VPC of its owner's account")


def acknowledge(stack: cdk.Stack, name: str, those: Iterable[Row]) -> None:
    """`name`: the cluster's, or whatever the stack is called."""
    values = {"name": name, "region": stack.region, "account": stack.account}
    for row in those:
        construct = _find(stack, row.path)
        if construct:  # a cluster may do without it
            finding = cdk.Acknowledgment(id=f"AwsSolutions-{row.finding.format_map(values)}", reason=row.reason)
            cdk.Validations.of(construct).acknowledge(finding)


def _find(stack: cdk.Stack, path: str) -> IConstruct | None:
    construct: IConstruct | None = stack
    for part in path.split("/"):
        construct = construct.node.try_find_child(part) if construct else None
    return construct
