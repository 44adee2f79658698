"""Checks whether the resources that the file names exist. One rule, with a row for each kind of resource."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from gpucluster.config.checks.network import security_groups
from gpucluster.config.checks.online.account import Account, Refused, zones
from gpucluster.config.checks.online.buckets import region_of, uris
from gpucluster.config.checks.online.images import PUBLIC_PARAMETERS, amis_of, published_of
from gpucluster.config.checks.online.reservations import groups_of
from gpucluster.config.checks.online.things import (
    CONNECT_ENDPOINT,
    GROUP,
    IMAGE,
    KEY,
    PARAMETER,
    POLICY,
    RESERVATION,
    SECURITY_GROUP,
    SUBNET,
    VPC,
)
from gpucluster.config.checks.security import named_policies
from gpucluster.config.document import Finding, Path
from gpucluster.config.models import ClusterConfig
from gpucluster.config.validators import Findings, Validator, register

NAMED = "What the file names (asks AWS)"
Named = Iterable[tuple[Path, str | None]]


@dataclass(frozen=True)
class Kind:
    name: str
    requires: str
    source: str
    named: Callable[[ClusterConfig], Named]
    there: Callable[[Account, str], object]
    """Returns a true value if it exists."""
    says: str
    """`{name}` and `{region}` are replaced by the file's values."""
    hint: str = ""

    def rule(self, config: ClusterConfig, account: Account) -> Findings:
        """Raises Refused after all have been checked."""
        refused: Refused | None = None
        for path, name in self.named(config):
            try:
                there = name is None or self.there(account, name)
            except Refused as refusal:
                refused = refusal
                continue
            if not there:
                words = {"name": name, "region": config.region}
                yield Finding(path, self.says.format(**words), self.hint.format(**words) or None)
        if refused:
            raise refused


def _reserved(config: ClusterConfig) -> Iterator[tuple[Path, str | None]]:
    for index, partition in enumerate(config.partitions):
        yield ("partitions", index, "reservation_id"), partition.reservation_id


def _buckets(config: ClusterConfig) -> Iterator[tuple[Path, str]]:
    """Each bucket once, at the first key that names it."""
    seen: dict[str, Path] = {}
    for path, uri in uris(config):
        seen.setdefault(uri.bucket, path)
    yield from ((path, bucket) for bucket, path in seen.items())


NOT_SEEN = "the account sees no {name} in {region}"
KINDS = (
    Kind(
        "vpc-exists",
        "The named VPC exists",
        "error InvalidVpcID.NotFound of EC2",
        lambda config: [(("network", "vpc_id"), config.network.vpc_id)],
        VPC.look_up,
        NOT_SEEN,
    ),
    Kind(
        "subnet-exists",
        "The named subnet exists",
        "error InvalidSubnetID.NotFound of EC2",
        lambda config: [(("network", "subnet_id"), config.network.subnet_id)],
        SUBNET.look_up,
        NOT_SEEN,
    ),
    Kind(
        "connect-endpoint-exists",
        "The named EC2 Instance Connect Endpoint exists",
        "error InvalidInstanceConnectEndpointId.NotFound of EC2",
        lambda config: [(("network", "connect_endpoint_id"), config.network.connect_endpoint_id)],
        CONNECT_ENDPOINT.look_up,
        NOT_SEEN,
        "remove it and connect_security_group_id: the stack creates one",
    ),
    Kind(
        "zone-exists",
        "The account has the availability zone",
        "error InvalidParameterValue of EC2 CreateSubnet: value for parameter availabilityZone is invalid",
        lambda config: [(("availability_zone",), config.availability_zone)],
        lambda account, name: name in zones(account, local=True),
        "the account has no {name}",
        "aws ec2 describe-availability-zones --region {region} lists its zones",
    ),
    Kind(
        "image-exists",
        "Each AMI exists, and the account may launch it",
        "error InvalidAMIID.NotFound of EC2 RunInstances",
        amis_of,
        IMAGE.look_up,
        NOT_SEEN,
        "AMI IDs differ between regions; is the image shared with your account?",
    ),
    Kind(
        "image-published",
        "The region has the Deep Learning AMI",
        "https://docs.aws.amazon.com/dlami/latest/devguide/find-dlami-id.html; error ParameterNotFound of SSM",
        published_of,
        lambda account, name: PARAMETER.look_up(account, PUBLIC_PARAMETERS[name]),
        "AWS publishes no {name} in {region}",
        "name your own AMI: ami-…",
    ),
    Kind(
        "reservation-exists",
        "A partition's reservation exists",
        "error InvalidCapacityReservationId.NotFound of EC2 RunInstances",
        _reserved,
        RESERVATION.look_up,
        NOT_SEEN,
        "aws ec2 describe-capacity-reservations lists the reservations",
    ),
    Kind(
        "placement-group-exists",
        "A named placement group exists",
        "error InvalidPlacementGroup.Unknown of EC2 RunInstances",
        groups_of,
        GROUP.look_up,
        "the account has no placement group {name!r}",
        "write cluster: the stack creates one",
    ),
    Kind(
        "kms-key-exists",
        "The named KMS key exists",
        "error NotFoundException of KMS DescribeKey",
        lambda config: [(("security", "kms_key_arn"), config.security.kms_key_arn)],
        KEY.look_up,
        "the KMS key {name} does not exist",
    ),
    Kind(
        "boundary-exists",
        "The permissions boundary is an existing policy",
        "error NoSuchEntity of IAM CreateRole: scope ARN does not exist or is not attachable",
        lambda config: [(("security", "permissions_boundary_arn"), config.security.permissions_boundary_arn)],
        POLICY.look_up,
        "the policy {name} does not exist",
    ),
    Kind(
        "policy-exists",
        "Each of security.policies is an existing policy",
        "error NoSuchEntity of IAM AttachRolePolicy: Policy … does not exist or is not attachable",
        lambda config: ((("security", *place), arn) for place, arn in named_policies(config.security)),
        POLICY.look_up,
        "the policy {name} does not exist",
        "`aws iam list-policies` lists the account's policies",
    ),
    Kind(
        "security-group-exists",
        "Each of security_groups exists",
        "error InvalidGroup.NotFound of EC2 RunInstances",
        security_groups,
        SECURITY_GROUP.look_up,
        NOT_SEEN,
        "aws ec2 describe-security-groups --region {region} lists them",
    ),
    Kind(
        "bucket-exists",
        "Each bucket that the file names exists",
        "https://docs.aws.amazon.com/AmazonS3/latest/API/API_HeadBucket.html: 404",
        _buckets,
        region_of,
        "the bucket {name} does not exist",
        "aws s3 mb s3://{name} --region {region}",
    ),
)
for _kind in KINDS:
    register(Validator(_kind.name, "error", NAMED, _kind.requires, _kind.source, (ClusterConfig,), "aws", _kind.rule))
