"""The addresses and names of the local cloud's networks: pure arithmetic."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

METADATA_ADDRESS = "169.254.169.254"
RESOLVER_ADDRESS = "169.254.169.253"
TIME_ADDRESS = "169.254.169.123"
API_ADDRESS = "169.254.169.251"
CREDENTIALS_ADDRESS = "169.254.170.2"  # of containers: botocore.utils.ContainerMetadataFetcher
TRUSTSTORE_ADDRESS = "203.0.113.53"  # of RDS's authorities; reached by the route to the internet
PUBLIC_ADDRESS = "198.51.100.53"  # of AWS's APIs under their own names; reached by the route to the internet
# EC2's own; jumbo frames inside a VPC.
VPC_MTU = 9001
_SHARED = ipaddress.IPv4Network("100.64.0.0/10")  # carrier-grade NAT space, which no LAN uses
_INSIDE = ipaddress.IPv4Network("100.127.0.0/16")  # between hub and VPCs; the host never sees it
_CLOUDS = 1 << 16
_BLOCKS = 15  # how many /30 networks below _INSIDE a cloud's number can select

Pair = tuple[str, str]


def uplink_pair(cloud_id: str, taken: Iterable[str] = ()) -> Pair:
    """(host's address, cloud's address) of a /30 that is this cloud's own and overlaps no route in `taken`."""
    routes = [ipaddress.ip_network(route, strict=False) for route in taken]
    for block in range(_BLOCKS):
        network = _nth_link(_SHARED, block * _CLOUDS + int(cloud_id, 16) % _CLOUDS)
        if not any(network.overlaps(route) for route in routes if route.prefixlen):
            return str(network[1]), str(network[2])
    raise ValueError(f"every candidate uplink network of cloud {cloud_id!r} in {_SHARED} is routed elsewhere")


def vpc_pair(index: int) -> Pair:
    """(hub's address, VPC's address) of the link to the cloud's n-th VPC."""
    network = _nth_link(_INSIDE, index)
    return str(network[1]), str(network[2])


def _nth_link(space: ipaddress.IPv4Network, index: int) -> ipaddress.IPv4Network:
    base = int(space.network_address) + 4 * index
    return ipaddress.IPv4Network((base, 30))


def gateway(subnet_cidr: str) -> str:
    return str(ipaddress.ip_network(subnet_cidr)[1])


def vpc_resolver(vpc_cidr: str) -> str:
    return str(ipaddress.ip_network(vpc_cidr)[2])


def prefix_length(cidr: str) -> int:
    return ipaddress.ip_network(cidr).prefixlen


def hub_netns(cloud_id: str) -> str:
    return f"lc-{cloud_id}"


def vpc_netns(cloud_id: str, vpc_id: str) -> str:
    return f"lc-{cloud_id}-{vpc_id}"


def guest_netns(cloud_id: str, instance_id: str) -> str:
    return f"lc-{cloud_id}-{instance_id}"


def uplink_name(cloud_id: str) -> str:
    return f"lc-{cloud_id}-up"


def guest_link_name(instance_id: str) -> str:
    """Unique among the guests of a VPC and at most 15 characters long, the kernel's limit."""
    return f"v{instance_id[-12:]}"


def host_name(private_ip: str) -> str:
    return f"ip-{private_ip.replace('.', '-')}"


def search_domain(region: str) -> str:
    return "ec2.internal" if region == "us-east-1" else f"{region}.compute.internal"
