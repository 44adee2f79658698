"""Rules about the cluster's region and zone."""

from __future__ import annotations

import re

from gpucluster.config.document import Finding
from gpucluster.config.models import ClusterConfig
from gpucluster.config.validators import Findings, Validators
from gpucluster.meant import did_you_mean

validator = Validators("Region")

REGIONS = [
    "af-south-1",
    "ap-east-1",
    "ap-east-2",
    "ap-northeast-1",
    "ap-northeast-2",
    "ap-northeast-3",
    "ap-south-1",
    "ap-south-2",
    "ap-southeast-1",
    "ap-southeast-2",
    "ap-southeast-3",
    "ap-southeast-4",
    "ap-southeast-5",
    "ap-southeast-6",
    "ap-southeast-7",
    "ca-central-1",
    "ca-west-1",
    "cn-north-1",
    "cn-northwest-1",
    "eu-central-1",
    "eu-central-2",
    "eu-north-1",
    "eu-south-1",
    "eu-south-2",
    "eu-west-1",
    "eu-west-2",
    "eu-west-3",
    "eusc-de-east-1",
    "il-central-1",
    "me-central-1",
    "me-south-1",
    "mx-central-1",
    "sa-east-1",
    "us-east-1",
    "us-east-2",
    "us-gov-east-1",
    "us-gov-west-1",
    "us-west-1",
    "us-west-2",
]
"""For "did you mean" only: another region is a warning, since AWS opens new ones."""


@validator(
    "region-known", "https://docs.aws.amazon.com/global-infrastructure/latest/regions/aws-regions.html", level="warning"
)
def region_known(config: ClusterConfig) -> Findings:
    """The region is one of AWS's."""
    if config.region not in REGIONS:
        hint = did_you_mean(config.region, REGIONS)
        yield Finding(("region",), f"{config.region!r} is not a region that GpuCluster knows", hint)


@validator("zone-of-region", "AWS::EC2::Subnet AvailabilityZone: error InvalidParameterValue of EC2 CreateSubnet")
def zone_of_region(config: ClusterConfig) -> Findings:
    """availability_zone is a zone of the region."""
    zone = config.availability_zone
    if zone is None or re.fullmatch(r"[a-z]{3,5}[0-9]-az[0-9]+", zone):
        return
    if not re.fullmatch(re.escape(config.region) + r"(-[a-z]{3}-[0-9]+)?[a-z]", zone):
        yield Finding(
            ("availability_zone",),
            f"must be an availability zone of {config.region}, such as {config.region}a, got {zone!r}",
            "remove it to use the region's first zone",
        )


@validator(
    "zone-is-no-local-zone",
    "https://aws.amazon.com/about-aws/global-infrastructure/localzones/features/: what each Local Zone has",
    level="warning",
)
def zone_is_no_local_zone(config: ClusterConfig) -> Findings:
    """availability_zone is no Local Zone: each has a part of AWS's services, and GpuCluster was not made for them."""
    zone = config.availability_zone or ""
    if re.fullmatch(re.escape(config.region) + r"-[a-z]{3}-[0-9]+[a-z]", zone):
        yield Finding(
            ("availability_zone",),
            f"{zone} is a Local Zone: it may lack NAT gateways, Instance Connect Endpoints, gp3 volumes or EFA",
            f"use a zone such as {config.region}a, or compare with AWS's list of the Local Zones' features",
        )


@validator(
    "zone-by-name",
    "AWS::EC2::Subnet AvailabilityZone: a zone's name; its id has a property of its own, AvailabilityZoneId",
)
def zone_by_name(config: ClusterConfig) -> Findings:
    """availability_zone is a zone's name, such as us-east-1a, not its id, such as use1-az1."""
    zone = config.availability_zone
    if zone is not None and re.fullmatch(r"[a-z]{3,5}[0-9]-az[0-9]+", zone):
        yield Finding(
            ("availability_zone",),
            f"{zone} is a zone's ID: the zone's name differs between accounts",
            f"aws ec2 describe-availability-zones --zone-ids {zone} prints your account's name for it",
        )
