"""Rules about the cluster as a whole: region, network, head node, the parameter servers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import get_close_matches
from ipaddress import IPv4Network

from gpucluster.config.document import Finding
from gpucluster.config.models import ClusterConfig
from gpucluster.instances import INSTANCE_TYPES

Findings = Iterator[Finding]

XEN_FAMILIES = ("m4.", "p3.")
"""Of the families in the instance table; p3dn is on Nitro."""

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
"""For "did you mean" only: a region that is not here draws a warning, for AWS opens new ones."""

# AWS keeps five addresses of a subnet; the head node, the NAT gateway's neighbours and the endpoints take a few more.
RESERVED_ADDRESSES = 5 + 11


def findings(config: ClusterConfig) -> Iterator[Findings]:
    for rule in (_region, _availability_zone, _vpc, _addresses, _no_existing_and_new, _head_node, _parameter_servers):
        yield rule(config)


def _region(config: ClusterConfig) -> Findings:
    if config.region not in REGIONS:
        near = get_close_matches(config.region, REGIONS, n=2, cutoff=0.8)
        hint = f"did you mean {' or '.join(map(repr, near))}?" if near else None
        yield Finding(("region",), f"{config.region!r} is not among the regions known here", hint, "warning")


def _availability_zone(config: ClusterConfig) -> Findings:
    zone = config.availability_zone
    if zone is not None and not re.fullmatch(re.escape(config.region) + r"(-[a-z]{3}-[0-9]+)?[a-z]", zone):
        yield Finding(
            ("availability_zone",),
            f"must be an availability zone of {config.region}, such as {config.region}a, got {zone!r}",
            "leave it out for the region's first one",
        )


def _vpc(config: ClusterConfig) -> Findings:
    network = config.network
    if network.subnet_id and not network.vpc_id:
        yield Finding(("network", "subnet_id"), "needs network.vpc_id as well", "name the VPC that the subnet is in")


def _no_existing_and_new(config: ClusterConfig) -> Findings:
    network = config.network
    if network.vpc_id and "vpc_cidr" in network.model_fields_set:
        yield Finding(
            ("network", "vpc_cidr"), "is for a new VPC, and network.vpc_id names an existing one", "keep one of the two"
        )


def _addresses(config: ClusterConfig) -> Findings:
    """Nodes are in a private subnet, half the VPC. Each takes one address: EFA interfaces are efa-only, without one."""
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


def _head_node(config: ClusterConfig) -> Findings:
    head = INSTANCE_TYPES[config.head_node.instance_type]
    if head.name.startswith(XEN_FAMILIES):
        yield Finding(
            ("head_node", "instance_type"),
            f"{head.name} runs on Xen: the head node needs its volume as an NVMe device, as Nitro types have it",
            "m6i types are their successors, and cost less",
        )
    if head.gpus:
        yield Finding(
            ("head_node", "instance_type"),
            f"{head.name} has GPUs that no job can use: the head node is not a Slurm node",
            "m6i.2xlarge is enough for most clusters",
            "warning",
        )


def _parameter_servers(config: ClusterConfig) -> Findings:
    servers = config.parameter_servers
    if servers and servers.min_nodes > servers.max_nodes:
        yield Finding(
            ("parameter_servers", "min_nodes"),
            f"must be at most max_nodes ({servers.max_nodes}), got {servers.min_nodes}",
        )
