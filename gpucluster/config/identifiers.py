"""Ids, names and ARNs of AWS that cluster.yaml may name."""

from __future__ import annotations

from typing import Annotated

from gpucluster.config.fields import EC2_IDS, NETWORK, SECURITY
from gpucluster.config.value_checks import form

ReservationId = Annotated[
    str,
    form(
        "reservation-id-form",
        "Purchase",
        "reservation_id",
        r"cr-[0-9a-f]{8,17}",
        "a capacity reservation's id (cr-…)",
        "error InvalidCapacityReservationId.Malformed of EC2 RunInstances",
    ),
]
SnapshotId = Annotated[
    str,
    form(
        "snapshot-id-form",
        "Head node",
        "snapshot_id",
        r"snap-([0-9a-f]{8}|[0-9a-f]{17})",
        "an EBS snapshot's id (snap-…)",
        EC2_IDS,
    ),
]
VpcId = Annotated[
    str,
    form("vpc-id-form", NETWORK, "vpc_id", r"vpc-([0-9a-f]{8}|[0-9a-f]{17})", "a VPC's id (vpc-…)", EC2_IDS),
]
SubnetId = Annotated[
    str,
    form(
        "subnet-id-form",
        NETWORK,
        "subnet_id",
        r"subnet-([0-9a-f]{8}|[0-9a-f]{17})",
        "a subnet's id (subnet-…)",
        EC2_IDS,
    ),
]
ConnectEndpointId = Annotated[
    str,
    form(
        "connect-endpoint-id-form",
        NETWORK,
        "connect_endpoint_id",
        r"eice-([0-9a-f]{8}|[0-9a-f]{17})",
        "the id of an EC2 Instance Connect Endpoint (eice-…)",
        EC2_IDS,
    ),
]
SecurityGroupId = Annotated[
    str,
    form(
        "security-group-id-form",
        NETWORK,
        "connect_security_group_id",
        r"sg-([0-9a-f]{8}|[0-9a-f]{17})",
        "a security group's id (sg-…)",
        EC2_IDS,
    ),
]
ScraperGroupId = Annotated[
    str,
    form(
        "scrape-from-form",
        "Monitoring",
        "scrape_from",
        r"sg-([0-9a-f]{8}|[0-9a-f]{17})",
        "a security group's id (sg-…)",
        EC2_IDS,
    ),
]
KmsKeyArn = Annotated[
    str,
    form(
        "kms-key-arn-form",
        SECURITY,
        "kms_key_arn",
        r"arn:aws[a-z-]*:kms:[a-z0-9-]+:[0-9]{12}:key/[A-Za-z0-9-]+",
        "a KMS key's ARN (arn:aws:kms:…:key/…)",
        "https://docs.aws.amazon.com/kms/latest/developerguide/concepts.html: key ARN, not an alias",
    ),
]
PolicyArn = Annotated[
    str,
    form(
        "policy-arn-form",
        SECURITY,
        "permissions_boundary_arn",
        r"arn:aws[a-z-]*:iam::([0-9]{12}|aws):policy/[!-~]+",
        "an IAM policy's ARN (arn:aws:iam::…:policy/…)",
        "AWS::IAM::Role PermissionsBoundary: the ARN of a managed policy",
    ),
]
ManagedPolicyArn = Annotated[
    str,
    form(
        "managed-policy-arn-form",
        SECURITY,
        "A policy of security.policies",
        r"arn:aws[a-z-]*:iam::([0-9]{12}|aws):policy/[!-~]+",
        "a managed policy's ARN (arn:aws:iam::…:policy/…)",
        "AWS::IAM::Role ManagedPolicyArns",
        "`aws iam list-policies` lists them",
    ),
]
RolePrefix = Annotated[
    str,
    form(
        "role-prefix-form",
        SECURITY,
        "role_prefix",
        r"(?=.)(/([A-Za-z0-9_+=,.@-]{1,64}/){0,6})?[A-Za-z0-9_+=,.@-]{0,20}",
        "at most 20 letters, digits and _ + = , . @ -, after a path such as /teams/ if there is one",
        "https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html: names of roles, paths",
    ),
]
NodeGroupId = Annotated[
    str,
    form(
        "security-groups-form",
        NETWORK,
        "Each of security_groups",
        r"sg-([0-9a-f]{8}|[0-9a-f]{17})",
        "a security group's id (sg-…)",
        EC2_IDS,
    ),
]
