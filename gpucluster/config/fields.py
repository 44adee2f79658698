"""The kinds of values that cluster.yaml's keys hold. Each checks one value alone and says what is allowed.

Numbers and booleans are strict: `"8"` is text, not 8, and `true` is not 1.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from ipaddress import IPv4Network
from typing import Annotated

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from gpucluster.config.validators import Validator, first_paragraph, register
from gpucluster.instances import INSTANCE_TYPES, near_misses

Check = Callable[[str], str]


def refuse(message: str, hint: str = "") -> PydanticCustomError:
    """Braces would be taken for placeholders, so the texts travel as context."""
    return PydanticCustomError("refused", "{message}", {"message": message, "hint": hint})


def field(name: str, *, section: str, source: str) -> Callable[[Check], Check]:
    """Names a check of one value; the first paragraph of its docstring says what it requires."""

    def decorate(check: Check) -> Check:
        register(Validator(name, "error", section, first_paragraph(check), source))

        def named(value: str) -> str:
            try:
                return check(value)
            except PydanticCustomError as refusal:
                context = {**(refusal.context or {}), "validator": name}
                raise PydanticCustomError("refused", "{message}", context) from None

        return named

    return decorate


def _matching(pattern: str, what: str, hint: str = "") -> Callable[[str], str]:
    expression = re.compile(pattern)

    def check(value: str) -> str:
        if not expression.fullmatch(value):
            raise refuse(f"must be {what}, got {value!r}", hint)
        return value

    return check


@field(
    "instance-type-known",
    section="Instance types",
    source="error InvalidParameterValue of EC2 RunInstances: the following supplied instance types do not exist",
)
def _known_instance_type(value: str) -> str:
    """An instance type is in the table of those whose GPUs and EFA interfaces are known."""
    if value not in INSTANCE_TYPES:
        near = near_misses(value)
        families = " ".join(dict.fromkeys(name.partition(".")[0] for name in INSTANCE_TYPES))
        raise refuse(
            f"{value!r} is not a known instance type",
            f"did you mean {' or '.join(map(repr, near))}?" if near else f"known families: {families}",
        )
    return value


def _network(value: str) -> str:
    try:
        IPv4Network(value)
    except ValueError as error:
        raise refuse(f"must be an IPv4 network such as 10.0.0.0/16, got {value!r}: {error}") from None
    return value


def _vpc_network(value: str) -> str:
    network = IPv4Network(_network(value))
    if not 16 <= network.prefixlen <= 27:
        raise refuse(f"must be between /16 and /27, got /{network.prefixlen}", "AWS takes no VPC larger than /16")
    return value


def _source_network(value: str) -> str:
    if IPv4Network(_network(value)).prefixlen == 0:
        raise refuse(
            f"{value} opens SSH to the whole internet",
            "name your own network, or leave it out: `gpucluster ssh` needs none",
        )
    return value


_SYSTEM_DIRECTORIES = (
    "bin",
    "boot",
    "dev",
    "etc",
    "lib",
    "opt",
    "proc",
    "root",
    "run",
    "sbin",
    "sys",
    "tmp",
    "usr",
    "var",
)


def _mount_point(value: str) -> str:
    _matching(r"(/[A-Za-z0-9._-]+)+", "an absolute path such as /fsx")(value)
    parts = value.split("/")
    if ".." in parts or "." in parts:
        raise refuse(f"must not contain . or .., got {value!r}")
    if parts[1] in _SYSTEM_DIRECTORIES:
        raise refuse(
            f"{value} would hide a directory of the system", "choose a path of your own, such as /fsx or /shared"
        )
    return value


def _text(pattern: str, what: str, hint: str = "") -> AfterValidator:
    return AfterValidator(_matching(pattern, what, hint))


InstanceTypeName = Annotated[str, AfterValidator(_known_instance_type)]
VpcNetwork = Annotated[str, AfterValidator(_vpc_network)]
SourceNetwork = Annotated[str, AfterValidator(_source_network)]
MountPoint = Annotated[str, AfterValidator(_mount_point)]

# CloudFormation takes 128 characters. Slurm's accounting names its tables <cluster>_wckey_usage_month_table, and
# MariaDB takes 64 characters for a table's name: 40 are left for the cluster's.
ClusterName = Annotated[
    str,
    _text(
        r"(?=.{1,40}$)[A-Za-z]([A-Za-z0-9-]*[A-Za-z0-9])?",
        "up to 40 letters, digits and hyphens, starting with a letter and not ending in a hyphen",
    ),
]
# Node n of partition p is p-n: a host name, so lower case, and p must not look like a node's name itself.
PartitionName = Annotated[
    str,
    _text(
        r"(?=.{1,20}$)(?!.*-[0-9]+$)[a-z]([a-z0-9-]*[a-z0-9])?",
        "up to 20 lower-case letters, digits and hyphens, starting with a letter, not ending in a hyphen and a number",
        "nodes are named after their partition: train-1, train-2 …",
    ),
]
RegionName = Annotated[str, _text(r"[a-z]{2,4}(-[a-z]+)+-[0-9]", "an AWS region such as us-east-1")]
Image = Annotated[
    str,
    _text(
        r"dlami-ubuntu-24\.04|ami-([0-9a-f]{8}|[0-9a-f]{17})",
        "dlami-ubuntu-24.04 or an AMI's id (ami- and 17 hexadecimal digits)",
    ),
]
PlacementGroup = Annotated[str, _text(r"[!-~]([ -~]{0,253}[!-~])?", "cluster, none or the name of a placement group")]
ServersPlacementGroup = Annotated[
    str, _text(r"[!-~]([ -~]{0,253}[!-~])?", "shared, none or the name of a placement group")
]
ReservationId = Annotated[str, _text(r"cr-[0-9a-f]{8,17}", "a capacity reservation's id (cr-…)")]
VpcId = Annotated[str, _text(r"vpc-([0-9a-f]{8}|[0-9a-f]{17})", "a VPC's id (vpc-…)")]
SubnetId = Annotated[str, _text(r"subnet-([0-9a-f]{8}|[0-9a-f]{17})", "a subnet's id (subnet-…)")]
KmsKeyArn = Annotated[
    str, _text(r"arn:aws[a-z-]*:kms:[a-z0-9-]+:[0-9]{12}:key/[A-Za-z0-9-]+", "a KMS key's ARN (arn:aws:kms:…:key/…)")
]
PolicyArn = Annotated[
    str, _text(r"arn:aws[a-z-]*:iam::([0-9]{12}|aws):policy/[!-~]+", "an IAM policy's ARN (arn:aws:iam::…:policy/…)")
]
EmailAddress = Annotated[str, _text(r"[^@\s]+@[^@\s]+\.[^@\s]+", "an e-mail address")]
S3Uri = Annotated[
    str, _text(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[ -~]*)?", "an S3 address such as s3://bucket/prefix")
]
DirectoryPath = Annotated[str, _text(r"/[!-~]*", "an absolute path such as /imagenet")]

Whole = Annotated[int, Field(strict=True, ge=0)]
Count = Annotated[int, Field(strict=True, ge=1)]
Amount = Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)]
