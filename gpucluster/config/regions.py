"""Differences between AWS's regions. Each table names its sources; all were read in November 2026."""

from __future__ import annotations

# The service endpoints of botocore 1.44: the prefixes of regions, their partition and the domain of its services.
_PARTITIONS = (
    ("cn-", "aws-cn", "amazonaws.com.cn"),
    ("us-gov-", "aws-us-gov", "amazonaws.com"),
    ("eusc-", "aws-eusc", "amazonaws.eu"),
    ("us-iso-", "aws-iso", "c2s.ic.gov"),
    ("us-isob-", "aws-iso-b", "sc2s.sgov.gov"),
    ("eu-isoe-", "aws-iso-e", "cloud.adc-e.uk"),
    ("us-isof-", "aws-iso-f", "csp.hci.ic.gov"),
)

# fmt: off
# CloudFormation's own resource specification (as cfn-lint 1.58 carries it) has no AWS::Budgets::Budget there.
WITHOUT_BUDGETS = frozenset({
    "af-south-1", "ap-east-1", "ap-east-2", "ap-northeast-3", "ap-south-2", "ap-southeast-3", "ap-southeast-4",
    "ap-southeast-5", "ap-southeast-6", "ap-southeast-7", "ca-west-1", "eu-central-2", "eu-north-1", "eu-south-1",
    "eu-south-2", "il-central-1", "me-central-1", "mx-central-1", "us-gov-east-1", "us-gov-west-1",
})

# The same for AWS::FSx::FileSystem.
WITHOUT_FSX = frozenset({"ap-southeast-6"})
# fmt: on


def partition_of(region: str) -> str:
    """The partition as in ARNs."""
    return next((partition for prefix, partition, _ in _PARTITIONS if region.startswith(prefix)), "aws")


def domain_of(region: str) -> str:
    """The domain of the services in the region's partition, as in the names of some of them in policies."""
    return next((domain for prefix, _, domain in _PARTITIONS if region.startswith(prefix)), "amazonaws.com")
