"""The nodes' permissions: the calls that their programs make, limited to our resources if AWS has a scope."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from aws_cdk import aws_iam as iam
from aws_cdk import aws_secretsmanager as secretsmanager
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from gpucluster.render import NODES_BUNDLE
from stacks.arns import arn, place
from stacks.encryption import grant_key_of_bundles
from stacks.network import Network
from stacks.partitions import LAUNCHED, Partition

READ_BY_NODES = (NODES_BUNDLE, "head", "jobs")
"""The cluster's parameters that compute nodes need, beside those of its file systems. The others are for the head node.
"""

RESOURCES_PER_STATEMENT = 20
"""CDK moves statements that do not fit into a role's inline policies to managed policies of 6,144 characters each."""


def node_role(scope: Construct, id_: str, policies: Sequence[str] = ()) -> iam.Role:
    """`policies`: the user's managed policies."""
    role = iam.Role(scope, id_, assumed_by=iam.ServicePrincipal("ec2.amazonaws.com"))
    attach(role, policies)
    return role


def bound(scope: Construct, policy_arn: str | None) -> None:
    """Attaches the customer's permissions boundary to every role in `scope`."""
    if policy_arn:
        policy = iam.ManagedPolicy.from_managed_policy_arn(scope, "Boundary", policy_arn)
        iam.PermissionsBoundary.of(scope).apply(policy)


def attach(role: iam.Role, policies: Sequence[str]) -> None:
    """The user's managed policies."""
    for number, each in enumerate(policies):
        role.add_managed_policy(iam.ManagedPolicy.from_managed_policy_arn(role, f"Policy{number}", each))


def allow(
    role: iam.Role, actions: Sequence[str], resources: Sequence[str], conditions: Mapping[str, Any] | None = None
) -> None:
    statement = iam.PolicyStatement(actions=list(actions), resources=list(resources), conditions=conditions)
    role.add_to_policy(statement)


def grant_bundles(role: iam.Role, bundles: str) -> None:
    allow(role, ["s3:GetObject"], [bundles])
    grant_key_of_bundles(role, bundles)


def grant_boot(role: iam.Role, *, bundles: str, parameters: list[str], munge_key: secretsmanager.Secret) -> None:
    """`bundles`: the objects in CDK's asset bucket that are this cluster's bundles. `parameters`: ARNs."""
    grant_bundles(role, bundles)
    allow(role, ["ssm:GetParameter"], parameters)
    allow(role, ["secretsmanager:GetSecretValue"], [munge_key.secret_arn])


def grant_compute(role: iam.Role, *, cluster: str) -> None:
    allow(role, ["ec2:DescribeTags"], ["*"])  # AWS has no scope for it
    # A node whose boot fails reports it in this tag. No condition can limit it to its own instance; this is the
    # nearest.
    allow(
        role,
        ["ec2:CreateTags"],
        [_ec2(role, "instance/*")],
        {
            "StringEquals": {"aws:ResourceTag/gpucluster:cluster": cluster},
            "ForAllValues:StringEquals": {"aws:TagKeys": ["gpucluster:boot-failure"]},
        },
    )


def grant_head(
    role: iam.Role,
    *,
    cluster: str,
    network: Network,
    partitions: Sequence[Partition],
    compute_role: iam.Role,
    host_key: ssm.StringParameter,
) -> None:
    allow(role, ["ec2:DescribeInstances", "ec2:DescribeInstanceStatus"], ["*"])  # AWS has no scope for them
    if any(partition.purchase.kind == "capacity-block" for partition in partitions):
        allow(role, ["ec2:DescribeCapacityReservations"], ["*"])
    if any(partition.topology for partition in partitions):
        allow(role, ["ec2:DescribeInstanceTopology"], ["*"])  # AWS has no scope for it
    _grant_launch(role, cluster=cluster, network=network, partitions=partitions)
    to_ec2 = {"StringEquals": {"iam:PassedToService": _ec2_by_name(role)}}
    allow(role, ["iam:PassRole"], [compute_role.role_arn], to_ec2)
    ours = {"aws:ResourceTag/gpucluster:cluster": cluster, "aws:ResourceTag/gpucluster:role": "compute"}
    allow(role, ["ec2:TerminateInstances"], [_ec2(role, "instance/*")], {"StringEquals": ours})
    names = {"ForAllValues:StringEquals": {"aws:TagKeys": ["Name", "gpucluster:node"]}}
    allow(role, ["ec2:CreateTags"], [_ec2(role, "instance/*")], {"StringEquals": ours, **names})
    allow(role, ["route53:ListResourceRecordSets"], [network.zone.hosted_zone_arn])
    # SOA: how long resolvers remember that a node's name did not exist.
    addresses = {"ForAllValues:StringEquals": {"route53:ChangeResourceRecordSetsRecordTypes": ["A", "SOA"]}}
    allow(role, ["route53:ChangeResourceRecordSets"], [network.zone.hosted_zone_arn], addresses)
    allow(role, ["ssm:PutParameter"], [host_key.parameter_arn])


def _grant_launch(role: iam.Role, *, cluster: str, network: Network, partitions: Sequence[Partition]) -> None:
    """Allows launches only from our templates, which a tag marks, and of our types.

    It uses tags instead of names because an inline policy has at most 10,240 characters, and there may be fifty
    partitions. ec2:IsLaunchTemplateResource keeps the caller from other resources (image, subnet, security group) than
    a template's, and not from other values: "you can override parameters that are specified in the launch template"
    (https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/use-launch-templates-to-control-launching-instances.html). So
    the type and IMDSv2 have conditions of their own, and iam:PassRole allows the nodes' role alone. EC2 sets
    ec2:MetadataHttpTokens only if the request itself has the value, not if its template has it
    (https://github.com/aws/karpenter-provider-aws/pull/9256), hence IfExists: an override is judged, and our own
    launches, which override nothing, pass whether EC2 sets a key or not. EC2 has no condition for user data: a stolen
    role of the head node can start nodes of the cluster's types that run other user data as root, with the nodes' role,
    and more of them than max_nodes.
    """
    ours = {"StringEquals": {"aws:ResourceTag/gpucluster:cluster": cluster}}
    allow(role, ["ec2:RunInstances"], [_ec2(role, "launch-template/*"), _ec2(role, "placement-group/*")], ours)
    instances, *others = made = [_ec2(role, f"{kind}/*") for kind in LAUNCHED]
    as_they_stand = {"Bool": {"ec2:IsLaunchTemplateResource": "true"}}
    types = sorted({name for partition in partitions for name in partition.templates})
    of_our_types = {"StringEqualsIfExists": {"ec2:InstanceType": types, "ec2:MetadataHttpTokens": "required"}}
    allow(role, ["ec2:RunInstances"], [instances], as_they_stand | of_our_types)
    allow(role, ["ec2:RunInstances"], others, as_they_stand)
    used = _used(role, network, partitions)
    for start in range(0, len(used), RESOURCES_PER_STATEMENT):
        allow(role, ["ec2:RunInstances"], used[start : start + RESOURCES_PER_STATEMENT], as_they_stand)
    at_launch = {"ec2:CreateAction": "RunInstances", "aws:RequestTag/gpucluster:cluster": cluster}
    allow(role, ["ec2:CreateTags"], made, {"StringEquals": at_launch})
    if any(partition.purchase.kind == "spot" for partition in partitions):
        _grant_first_spot_launch(role)


def _used(role: iam.Role, network: Network, partitions: Sequence[Partition]) -> list[str]:
    """Resources that templates name and this stack did not tag."""
    # Another account may share a subnet or a reservation.
    owner = "*" if network.exists else None
    images = sorted({partition.image_id for partition in partitions})
    security = sorted({group for each in partitions for group in each.groups})
    groups = sorted({each.group.name for each in partitions if each.group and not each.group.ours})
    reservations = sorted({each for partition in partitions if (each := partition.purchase.targeted)})
    return [
        _ec2(role, f"subnet/{network.subnet.subnet_id}", owner),
        _ec2(role, f"security-group/{network.compute.security_group_id}"),
        *(_ec2(role, f"security-group/{group}", owner) for group in security),
        *(_image(role, image) for image in images),
        *(_ec2(role, f"placement-group/{group}") for group in groups),
        *(_ec2(role, f"capacity-reservation/{each}", "*") for each in reservations),
    ]


def _grant_first_spot_launch(role: iam.Role) -> None:
    """An account that has never used spot lacks EC2's role for it; the first launch creates the role."""
    service = "spot.amazonaws.com"
    spot = arn(role, "iam", f"role/aws-service-role/{service}/AWSServiceRoleForEC2Spot", region="")
    allow(role, ["iam:CreateServiceLinkedRole"], [spot], {"StringEquals": {"iam:AWSServiceName": service}})


def _ec2_by_name(role: iam.Role) -> str | list[str]:
    """In China the service has a second name; AWS's own policies list both."""
    name = "ec2.amazonaws.com"
    return [name, f"{name}.cn"] if place(role)[1].startswith("cn-") else name


def _ec2(role: iam.Role, resource: str, account: str | None = None) -> str:
    return arn(role, "ec2", resource, account=account)


def _image(role: iam.Role, image_id: str) -> str:
    """ARNs of images have no account."""
    return _ec2(role, f"image/{image_id}", "")
