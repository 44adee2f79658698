"""Rules about the VPC: a new one or an existing one, and its addresses."""

from __future__ import annotations

from ipaddress import IPv4Network

from gpucluster.config.document import Finding, Path
from gpucluster.config.models import ClusterConfig, Network
from gpucluster.config.validators import Findings, validator

SECTION = "Network"

# AWS keeps five addresses of a subnet; the head node, the NAT gateway's neighbours and the endpoints take a few more.
RESERVED_ADDRESSES = 5 + 11

SUBNET_SIZES = "https://docs.aws.amazon.com/vpc/latest/userguide/subnet-sizing.html"


@validator(
    "subnet-needs-vpc",
    section=SECTION,
    each=Network,
    source="AWS::EC2::SecurityGroup VpcId: groups and endpoints are made in a VPC, not in a subnet",
)
def subnet_needs_vpc(network: Network, path: Path, config: ClusterConfig) -> Findings:
    """subnet_id stands beside the vpc_id that it is in."""
    if network.subnet_id and not network.vpc_id:
        yield Finding((*path, "subnet_id"), "needs network.vpc_id as well", "name the VPC that the subnet is in")


@validator(
    "vpc-new-or-existing",
    section=SECTION,
    each=Network,
    source="AWS::EC2::VPC CidrBlock: it is set when a VPC is made",
)
def vpc_new_or_existing(network: Network, path: Path, config: ClusterConfig) -> Findings:
    """vpc_cidr is for a new VPC; it does not stand beside vpc_id."""
    if network.vpc_id and "vpc_cidr" in network.model_fields_set:
        yield Finding((*path, "vpc_cidr"), "is for a new VPC, and network.vpc_id names an existing one", "keep one")


@validator(
    "subnet-holds-nodes",
    section=SECTION,
    each=ClusterConfig,
    source=f"{SUBNET_SIZES}: error InsufficientFreeAddressesInSubnet of EC2 RunInstances",
)
def subnet_holds_nodes(config: ClusterConfig) -> Findings:
    """The private half of vpc_cidr has an address for every node: one each, for EFA interfaces take none."""
    if config.network.vpc_id:
        return
    nodes = sum(partition.max_nodes for partition in config.partitions)
    nodes += config.parameter_servers.max_nodes if config.parameter_servers else 0
    available = 2 ** (31 - IPv4Network(config.network.vpc_cidr).prefixlen) - RESERVED_ADDRESSES
    if nodes > available:
        larger = next((n for n in range(26, 15, -1) if 2 ** (32 - n - 1) - RESERVED_ADDRESSES >= nodes), None)
        base = IPv4Network(config.network.vpc_cidr).network_address
        yield Finding(
            ("network", "vpc_cidr"),
            f"{config.network.vpc_cidr} has room for {available} nodes in its private half; partitions ask for {nodes}",
            f"a /{larger} is large enough, if {base} can start one"
            if larger
            else "a /16 is the largest VPC: lower max_nodes",
        )
