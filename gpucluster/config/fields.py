"""The types of cluster.yaml's values. Each checks a single value and reports what is allowed.

Numbers and booleans are strict: `"8"` is text, not 8, and `true` is not 1.
"""

from __future__ import annotations

import re
from ipaddress import IPv4Network
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from gpucluster.config.s3_form import s3_uri
from gpucluster.config.value_checks import field, form, matching, refuse
from gpucluster.hardware.instances import INSTANCE_TYPES
from gpucluster.hardware.unsupported import not_supported
from gpucluster.meant import did_you_mean


@field(
    "instance-type-known",
    section="Instance types",
    source="error InvalidParameterValue of EC2 RunInstances: the following supplied instance types do not exist",
)
def _known_instance_type(value: str) -> str:
    """An instance type is in GpuCluster's table of EC2's x86-64 types, which has its GPUs and EFA interfaces."""
    if value not in INSTANCE_TYPES:
        if why := not_supported(value):
            raise refuse(f"{value!r} is an instance type that GpuCluster does not support", why)
        raise refuse(
            f"{value!r} is not a known instance type",
            did_you_mean(value, INSTANCE_TYPES, "`gpucluster types` lists those with GPUs, `types --all` all") or "",
        )
    return value


def _whole_network(value: str) -> str:
    """10.0.0.1/8 is a host's address with its network."""
    try:
        return f"write {IPv4Network(value, strict=False)}"
    except ValueError:
        return ""


@field("network-form", section="Network", source="AWS::EC2::VPC CidrBlock; RFC 4632: an IPv4 network in CIDR notation")
def _network(value: str) -> str:
    """A network is an IPv4 address and the length of its prefix, and the bits behind the prefix are 0."""
    try:
        network = IPv4Network(value)
    except ValueError:
        raise refuse(f"must be an IPv4 network such as 10.0.0.0/16, got {value!r}", _whole_network(value)) from None
    if str(network) != value:  # EC2 accepts neither a bare address nor a netmask
        raise refuse(f"must be an IPv4 network such as 10.0.0.0/16, got {value!r}", f"write {network}")
    return value


@field(
    "vpc-cidr-size",
    section="Network",
    source="https://docs.aws.amazon.com/vpc/latest/userguide/vpc-cidr-blocks.html: /16 to /28; error InvalidVpc.Range",
)
def _vpc_size(value: str) -> str:
    """vpc_cidr is from /16 to /27: a VPC's largest, and the smallest of which two subnets can be made."""
    network = IPv4Network(value)
    if not 16 <= network.prefixlen <= 27:
        hint = "AWS takes no VPC larger than /16" if network.prefixlen < 16 else "two subnets of /28 must fit into it"
        raise refuse(f"must be between /16 and /27, got /{network.prefixlen}", hint)
    return value


@field(
    "ssh-from-not-everyone",
    section="SSH from outside",
    source="https://docs.aws.amazon.com/securityhub/latest/userguide/ec2-controls.html: EC2.13: no SSH from 0.0.0.0/0",
)
def _not_everyone(value: str) -> str:
    """ssh_from is not 0.0.0.0/0."""
    if IPv4Network(value).prefixlen == 0:
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

_OF_IMAGES = ("amazon", "aws", "beegfs", "dlami", "gpucluster", "nvidia", "pytorch", "slurm")
"""Folders below /opt that images and boot steps fill."""

MOUNT_CHARACTERS = 100

_path = matching(r"(/[A-Za-z0-9._-]+)+", "an absolute path such as /fsx")


@field(
    "mount-form", section="Mounts", source="man fstab.5: spaces and # must be escaped; man mount.8: an absolute path"
)
def _mount_path(value: str) -> str:
    """mount is an absolute path of letters, digits, dots, hyphens and underscores."""
    parts = _path(value).split("/")
    if ".." in parts or "." in parts:
        raise refuse(f"must not contain . or .., got {value!r}")
    return value


@field(
    "mount-length",
    section="Mounts",
    source="https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateSecurityGroup.html: "
    "GroupDescription, up to 255 characters; AWS::CloudWatch::Alarm AlarmName",
)
def _mount_length(value: str) -> str:
    """mount has at most 100 characters: names, tags and descriptions hold it, beside the cluster's name."""
    if len(value) > MOUNT_CHARACTERS:
        raise refuse(f"must have at most {MOUNT_CHARACTERS} characters, got {len(value)}", "choose a shorter path")
    return value


@field("mount-not-of-system", section="Mounts", source="man hier.7; man mount.8: what was there is hidden")
def _own_directory(value: str) -> str:
    """mount is not in a directory of the system, such as /etc or /usr."""
    if _path_is_of_system(value.split("/")[1:]):
        raise refuse(
            f"{value} would hide a directory of the system", "choose a path of your own, such as /fsx or /shared"
        )
    return value


def _path_is_of_system(parts: list[str]) -> bool:
    """A new folder below /opt hides nothing: https://refspecs.linuxfoundation.org/FHS_3.0/fhs/ch03s13.html."""
    if parts[0] == "opt" and len(parts) > 1:
        return parts[1] in _OF_IMAGES
    return parts[0] in _SYSTEM_DIRECTORIES


NAMES, NETWORK, PLACEMENT, SECURITY = "Names", "Network", "Placement groups", "Security"
GROUP_NAME = r"[!-~]([ -~]{0,253}[!-~])?"
EC2_IDS = "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/resource-ids.html: 8 or 17 hexadecimal digits"

InstanceTypeName = Annotated[str, AfterValidator(_known_instance_type)]
VpcNetwork = Annotated[str, AfterValidator(_network), AfterValidator(_vpc_size)]
SourceNetwork = Annotated[str, AfterValidator(_network), AfterValidator(_not_everyone)]
MountPoint = Annotated[str, AfterValidator(_mount_path), AfterValidator(_mount_length), AfterValidator(_own_directory)]

ClusterName = Annotated[
    str,
    form(
        "cluster-name-form",
        NAMES,
        "The cluster's name",
        r"[A-Za-z]([A-Za-z0-9-]*[A-Za-z0-9])?",
        "letters, digits and hyphens, starting with a letter and not ending in a hyphen",
        "https://docs.aws.amazon.com/AWSCloudFormation/latest/APIReference/API_CreateStack.html: StackName; "
        "RFC 1123: a label of a DNS name",
    ),
    # Slurm's accounting names its tables <cluster>_wckey_usage_month_table, and MariaDB takes 64 characters.
    form(
        "cluster-name-length",
        NAMES,
        "The cluster's name",
        r".{1,40}",
        "at most 40 characters",
        "man slurm.conf.5: ClusterName: 40 characters, for MariaDB's limit on the names of tables",
    ),
]
PartitionName = Annotated[
    str,
    form(
        "partition-name-form",
        NAMES,
        "A partition's name",
        r"[a-z]([a-z0-9-]*[a-z0-9])?",
        "lower-case letters, digits and hyphens, starting with a letter and not ending in a hyphen",
        "RFC 1123: a label of a DNS name: node 1 of train is train-1",
        "nodes are named after their partition: train-1, train-2 …",
    ),
    form(
        "partition-name-not-a-node",
        NAMES,
        "A partition's name",
        r"(?!.*-[0-9]+$).*",
        "a name that does not end in a hyphen and a number, as a node's does",
        "man slurm.conf.5: NodeName: the number of a range such as train-[1-8] is at the end of the name",
        "nodes are named after their partition: train-1, train-2 …",
    ),
    # A label of DNS has 63 characters; CloudFormation's ids are the name and the instance type's in one word.
    form(
        "partition-name-length",
        NAMES,
        "A partition's name",
        r".{1,20}",
        "at most 20 characters",
        "RFC 1123: a host name's label has 63 characters, with the node's number",
    ),
]


@field(
    "region-form",
    section="Region",
    source="https://docs.aws.amazon.com/global-infrastructure/latest/regions/aws-regions.html",
)
def _region(value: str) -> str:
    """region is an AWS region such as us-east-1"""
    if re.fullmatch(r"[a-z]{2,4}(-[a-z]+)+-[0-9]", value):
        return value
    near = re.fullmatch(r"([a-z]{2})[-_ ]?(gov)?[-_ ]?([a-z]+)[-_ ]?(\d)[a-z]?", value.strip().lower())
    hint = f"did you mean {'-'.join(filter(None, near.groups()))!r}?" if near else ""
    raise refuse(f"must be an AWS region such as us-east-1, got {value!r}", hint)


RegionName = Annotated[str, AfterValidator(_region)]
Image = Annotated[
    str,
    form(
        "image-form",
        "Images",
        "An image",
        r"dlami-ubuntu-24\.04|ami-([0-9a-f]{8}|[0-9a-f]{17})",
        "dlami-ubuntu-24.04 or an AMI's id (ami- and 17 hexadecimal digits)",
        f"error InvalidAMIID.Malformed of EC2 RunInstances; {EC2_IDS}",
    ),
]


def _one_word(own: str) -> BeforeValidator:
    """For placement_group: in quotes, `false` would be a group's name. ParallelCluster has a section with enabled."""

    def check(value: Any) -> Any:
        if value is None or isinstance(value, bool):
            got = "nothing" if value is None else str(value).lower()
            message = f"must be {own}, none or the name of a placement group, got {got}"
            raise refuse(message, f"write {own if value else 'none'}")
        if isinstance(value, (dict, list)):
            message = f"must be {own}, none or the name of a placement group, not a section or a list"
            raise refuse(message, f"write it as one word: placement_group: {own}")
        return value

    return BeforeValidator(check)


PlacementGroup = Annotated[
    str,
    _one_word("cluster"),
    form(
        "placement-group-form",
        PLACEMENT,
        "placement_group",
        GROUP_NAME,
        "cluster, none or the name of a placement group",
        "https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreatePlacementGroup.html: GroupName: "
        "up to 255 ASCII characters, not starting or ending with a space",
    ),
]
ServersPlacementGroup = Annotated[
    str,
    _one_word("shared"),
    form(
        "servers-group-form",
        PLACEMENT,
        "The parameter servers' placement_group",
        GROUP_NAME,
        "shared, none or the name of a placement group",
        "https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreatePlacementGroup.html: GroupName",
    ),
]
ProxyUrl = Annotated[
    str,
    form(
        "proxy-form",
        NETWORK,
        "proxy",
        r"http://([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?):[0-9]{1,5}",
        "http://host:port",
        "man curl.1: http_proxy [protocol://]<host>[:port]",
        "a proxy with a password is not supported: all users of the nodes could read it",
    ),
]
DirectName = Annotated[
    str,
    form(
        "no-proxy-form",
        NETWORK,
        "Each of no_proxy",
        r"\.?[A-Za-z0-9]([A-Za-z0-9.:/-]*[A-Za-z0-9])?",
        "a name, the end of names such as .example.com, an address or a network",
        "man curl.1: NO_PROXY <comma-separated list of hosts/domains>",
        "without *: example.com stands for www.example.com too",
    ),
]
EmailAddress = Annotated[
    str,
    form(
        "email-form",
        "Monitoring",
        "The recipient of notices",
        r"[^@\s]+@[^@\s]+\.[^@\s]+",
        "an e-mail address",
        "error InvalidParameter of SNS Subscribe: Endpoint of the protocol email",
    ),
]
S3Uri = Annotated[str, AfterValidator(s3_uri)]

Whole = Annotated[int, Field(strict=True, ge=0)]
Count = Annotated[int, Field(strict=True, ge=1)]
Amount = Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)]
