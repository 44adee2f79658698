"""Rules about the VPC: a new one or an existing one, and its addresses."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Network

from gpucluster.config.checks.entries import entries
from gpucluster.config.document import Finding, Path
from gpucluster.config.models import ClusterConfig, Network
from gpucluster.config.nodes import HeadNode, ParameterServers, Partition
from gpucluster.config.validators import Findings, Validators

validator = Validators("Network")

KEPT_BY_AWS = 5
BESIDE_NODES = 8
"""Addresses of the head node, its replacement, the Instance Connect Endpoint and file systems."""
INTERFACE_ENDPOINTS = 9
"""The maximum with internet: none."""

SUBNET_SIZES = "https://docs.aws.amazon.com/vpc/latest/userguide/subnet-sizing.html"
VPC_CIDR = "https://docs.aws.amazon.com/vpc/latest/userguide/vpc-cidr-blocks.html"

DOCKER = IPv4Network("172.17.0.0/16")
PRIVATE = [IPv4Network(each) for each in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10")]
"""RFC 1918, and RFC 6598, which AWS recommends when those run out."""

UNUSABLE = {
    IPv4Network("0.0.0.0/8"): "this network",
    IPv4Network("127.0.0.0/8"): "the loopback addresses",
    IPv4Network("169.254.0.0/16"): "the link-local addresses, where instances find their metadata and DNS",
    IPv4Network("224.0.0.0/4"): "multicast addresses",
    IPv4Network("240.0.0.0/4"): "addresses that nobody may use",
}


@validator("subnet-needs-vpc", "AWS::EC2::SecurityGroup VpcId: groups and endpoints are made in a VPC, not in a subnet")
def subnet_needs_vpc(network: Network, path: Path, config: ClusterConfig) -> Findings:
    """subnet_id needs vpc_id: the VPC that the subnet is in."""
    if network.subnet_id and not network.vpc_id:
        yield Finding((*path, "subnet_id"), "network.vpc_id is required too", "set it to the subnet's VPC")


@validator(
    "vpc-needs-subnet", "AWS::EC2::LaunchTemplate NetworkInterface.SubnetId: an interface is in a subnet, not in a VPC"
)
def vpc_needs_subnet(network: Network, path: Path, config: ClusterConfig) -> Findings:
    """vpc_id needs subnet_id: the subnet for the nodes."""
    if network.vpc_id and not network.subnet_id:
        yield Finding((*path, "vpc_id"), "network.subnet_id is required too", "set it to the nodes' private subnet")


@validator(
    "subnet-needs-zone", "error InvalidVolume.ZoneMismatch of EC2 AttachVolume: volume and instance are in one zone"
)
def subnet_needs_zone(network: Network, path: Path, config: ClusterConfig) -> Findings:
    """With an existing subnet, availability_zone is the subnet's: the head node's volume is created there."""
    if network.subnet_id and config.availability_zone is None:
        yield Finding(
            (*path, "subnet_id"),
            "availability_zone is required: the subnet's zone",
            f"aws ec2 describe-subnets --subnet-ids {network.subnet_id} prints it",
        )


@validator(
    "connect-endpoint-needs-vpc",
    "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/connect-with-ec2-instance-connect-endpoint.html: in the VPC",
)
def connect_endpoint_needs_vpc(network: Network, path: Path, config: ClusterConfig) -> Findings:
    """connect_endpoint_id needs vpc_id: an endpoint reaches only its own VPC, and a new VPC has none."""
    if network.connect_endpoint_id and not network.vpc_id:
        yield Finding((*path, "connect_endpoint_id"), "network.vpc_id is required too", "set it to the endpoint's VPC")


@validator("connect-endpoint-needs-group", "AWS::EC2::SecurityGroupIngress SourceSecurityGroupId")
def connect_endpoint_needs_group(network: Network, path: Path, config: ClusterConfig) -> Findings:
    """connect_endpoint_id and connect_security_group_id need each other: nodes accept SSH from the endpoint's group."""
    if network.connect_endpoint_id and not network.connect_security_group_id:
        yield Finding(
            (*path, "connect_endpoint_id"),
            "network.connect_security_group_id is required too",
            "aws ec2 describe-instance-connect-endpoints --instance-connect-endpoint-ids "
            f"{network.connect_endpoint_id} prints it",
        )
    if network.connect_security_group_id and not network.connect_endpoint_id:
        yield Finding(
            (*path, "connect_security_group_id"),
            "network.connect_endpoint_id is required too",
            "name the endpoint, or remove this key",
        )


@validator("vpc-new-or-existing", "AWS::EC2::VPC CidrBlock: it is set when a VPC is made")
def vpc_new_or_existing(network: Network, path: Path, config: ClusterConfig) -> Findings:
    """vpc_cidr is for a new VPC: it cannot be combined with vpc_id."""
    if network.vpc_id and "vpc_cidr" in network.model_fields_set:
        yield Finding(
            (*path, "vpc_cidr"), "is only for a new VPC, but network.vpc_id names an existing one", "remove one of them"
        )


@validator("vpc-cidr-usable", "RFC 6890: special-purpose addresses; error InvalidParameterValue of EC2 CreateVpc")
def vpc_cidr_usable(network: Network, path: Path, config: ClusterConfig) -> Findings:
    """vpc_cidr has addresses that hosts may use: not those of 0/8, 127/8, 169.254/16, 224/4 and 240/4."""
    for reserved, what in UNUSABLE.items():
        if IPv4Network(network.vpc_cidr).overlaps(reserved):
            yield Finding((*path, "vpc_cidr"), f"{network.vpc_cidr} belongs to {what} ({reserved})", "use 10.0.0.0/16")


@validator(
    "vpc-cidr-not-docker",
    f"{VPC_CIDR}: some services use 172.17.0.0/16; Docker's bridge on each node does",
    level="warning",
)
def vpc_cidr_not_docker(network: Network, path: Path, config: ClusterConfig) -> Findings:
    """vpc_cidr does not overlap 172.17.0.0/16, which Docker uses on every node."""
    if IPv4Network(network.vpc_cidr).overlaps(DOCKER):
        yield Finding(
            (*path, "vpc_cidr"),
            f"{network.vpc_cidr} overlaps {DOCKER}, the network of Docker on nodes",
            "use another range",
        )


@validator("subnet-holds-nodes", f"{SUBNET_SIZES}: error InsufficientFreeAddressesInSubnet of EC2 RunInstances")
def subnet_holds_nodes(config: ClusterConfig) -> Findings:
    """The private half of vpc_cidr has an address for every node: one each; EFA interfaces need none."""
    if config.network.vpc_id:
        return
    nodes = config.max_nodes
    reserved = KEPT_BY_AWS + BESIDE_NODES + (INTERFACE_ENDPOINTS if config.network.internet == "none" else 0)
    available = max(0, 2 ** (31 - IPv4Network(config.network.vpc_cidr).prefixlen) - reserved)
    if nodes > available:
        larger = next((n for n in range(26, 15, -1) if 2 ** (31 - n) - reserved >= nodes), None)
        base = IPv4Network(config.network.vpc_cidr).network_address
        yield Finding(
            ("network", "vpc_cidr"),
            f"{config.network.vpc_cidr} has room for {available} nodes in its private half; partitions have {nodes}",
            f"use a /{larger}, if {base} can be the start of one"
            if larger
            else "a /16 is the largest VPC: lower max_nodes",
        )


@validator("proxy-within-reach", "AWS::EC2::VPC CidrBlock: a new VPC has no peering and no transit gateway")
def proxy_within_reach(network: Network, path: Path, config: ClusterConfig) -> Findings:
    """A proxy needs a network that leads to it: a new VPC with internet: none has none."""
    if network.proxy and network.internet == "none" and not network.vpc_id:
        message = "with internet: none the new VPC leads to no proxy"
        yield Finding((*path, "proxy"), message, "name the VPC that leads there, vpc_id and subnet_id, or remove it")


@validator("no-proxy-needs-proxy", "man curl.1: NO_PROXY: the hosts that do not go through the proxy")
def no_proxy_needs_proxy(network: Network, path: Path, config: ClusterConfig) -> Findings:
    """no_proxy names exceptions from proxy."""
    if network.no_proxy and not network.proxy:
        yield Finding((*path, "no_proxy"), "network.proxy is missing", "add it, or remove no_proxy")


GROUPS_QUOTA = (
    "https://docs.aws.amazon.com/vpc/latest/userguide/amazon-vpc-limits.html: security groups per network interface"
)
MOST_GROUPS = 5
"""On a network interface. One is ours."""


@validator("security-groups-need-vpc", "error InvalidGroup.NotFound of EC2 RunInstances: a group is of one VPC")
def security_groups_need_vpc(
    nodes: HeadNode | Partition | ParameterServers, path: Path, config: ClusterConfig
) -> Findings:
    """security_groups need vpc_id: a security group is in one VPC, and a new VPC has none of yours."""
    if nodes.security_groups and not config.network.vpc_id:
        message = "a security group is in one VPC, and this cluster makes a new one"
        yield Finding((*path, "security_groups"), message, "name the groups' VPC: network.vpc_id and subnet_id")


@validator("security-groups-count", GROUPS_QUOTA)
def security_groups_count(
    nodes: HeadNode | Partition | ParameterServers, path: Path, config: ClusterConfig
) -> Findings:
    """Nodes have at most 4 security groups of the file: AWS's quota is 5 on a network interface, and one is ours."""
    if len(nodes.security_groups) >= MOST_GROUPS:
        message = f"must be at most {MOST_GROUPS - 1}, got {len(nodes.security_groups)}: with ours a network interface "
        hint = "put the rules into fewer groups, or silence this if your quota is higher"
        yield Finding((*path, "security_groups"), f"{message}takes {MOST_GROUPS}", hint)


def security_groups(config: ClusterConfig) -> Iterator[tuple[Path, str]]:
    """Each of security_groups, with its place in the file."""
    for kind in (HeadNode, Partition, ParameterServers):
        for path, nodes in entries(config, kind):
            for index, group in enumerate(nodes.security_groups):
                yield (*path, "security_groups", index), group
