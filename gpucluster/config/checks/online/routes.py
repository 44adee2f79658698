"""Checks whether nodes reach the internet, and whether the internet reaches the load balancer of `ssh_from`."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Network, collapse_addresses

from gpucluster.config.checks.online.account import Account, Answer, deployed
from gpucluster.config.checks.online.network import validator
from gpucluster.config.checks.online.things import SUBNET
from gpucluster.config.document import Finding, Path
from gpucluster.config.models import ClusterConfig, Network
from gpucluster.config.validators import Findings

NAT = "https://docs.aws.amazon.com/vpc/latest/userguide/vpc-nat-gateway.html: default route"
STATES = "https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_Route.html: state, blackhole"
PEERING = "https://docs.aws.amazon.com/vpc/latest/peering/vpc-peering-basics.html: no edge to edge routing"
BLOCKING = "https://docs.aws.amazon.com/vpc/latest/userguide/security-vpc-bpa-basics.html"

TARGETS = (
    "NatGatewayId",
    "TransitGatewayId",
    "VpcPeeringConnectionId",
    "LocalGatewayId",
    "CarrierGatewayId",
    "CoreNetworkArn",
    "InstanceId",
    "NetworkInterfaceId",
    "GatewayId",
)
EVERYWHERE = IPv4Network("0.0.0.0/0")
# fmt: off
NOT_THE_INTERNET = [IPv4Network(each) for each in (
    "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
    "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
    "224.0.0.0/4", "240.0.0.0/4",
)]
# fmt: on
"""RFC 6890: the special-purpose addresses, which routes to the internet may leave out."""
GONE = ("deleting", "deleted", "failed")

Route = tuple[IPv4Network, str]
"""A destination, and the id of its target."""


@validator("subnet-leads-out", f"{NAT}; {STATES}; {PEERING}")
def subnet_leads_out(network: Network, path: Path, config: ClusterConfig, account: Account) -> Findings:
    """With internet: nat the subnet's routes lead to a NAT gateway or the like, not to an internet gateway.

    One default route, several that cover the internet together, or a prefix list. The target of each exists. With a
    proxy none is needed.
    """
    if (
        network.subnet_id is None
        or network.internet != "nat"
        or network.proxy
        or SUBNET.look_up(account, network.subnet_id) is None
    ):
        return
    leading, dead = _leading(account, network)
    out = [route for route in leading if not route[1].startswith(("igw-", "cagw-", "pcx-"))]
    if _cover(out):
        return
    yield Finding((*path, "subnet_id"), *_fault(network, leading, dead))


def _fault(network: Network, leading: list[Route], dead: list[Route]) -> tuple[str, str]:
    """The message, and what to do."""
    lacks = f"{network.subnet_id} has no route to the internet"
    if _cover(leading):
        if public := _widest(leading, "igw-", "cagw-"):
            message = f"{network.subnet_id} is public, it leads to {public[1]}: nodes have no public address"
            return message, "name a subnet whose default route leads to a NAT gateway"
        _, peer = _widest(leading, "pcx-") or leading[0]
        message = f"{lacks}: a VPC peering connection, {peer}, does not lead there"
        return message, "route to a NAT gateway or to a transit gateway"
    if (gone := _widest(dead, "")) and _cover([*leading, *dead]):
        return f"{lacks}: {gone[1]} is gone or does not work", f"replace the route to {gone[0]}, or its target"
    return lacks, "add a route from 0.0.0.0/0 to a NAT gateway, name a proxy in network.proxy, or write internet: none"


def _widest(routes: Iterable[Route], *targets: str) -> Route | None:
    """The route to the largest network whose target begins so."""
    found = [route for route in routes if route[1].startswith(targets)]
    return min(found, key=lambda route: route[0].prefixlen, default=None)


def _cover(routes: Iterable[Route]) -> bool:
    """Whether the routes lead to all of the internet."""
    return list(collapse_addresses([*NOT_THE_INTERNET, *(cidr for cidr, _ in routes)])) == [EVERYWHERE]


def _leading(account: Account, network: Network) -> tuple[list[Route], list[Route]]:
    """The routes whose targets work, and those whose targets do not."""
    working: list[Route] = []
    dead: list[Route] = []
    routes = _routes(account, network)
    plain = [route for route in routes if "DestinationCidrBlock" in route]
    lists = [route for route in routes if "DestinationPrefixListId" in route]
    for route in plain:
        found = dead if _is_dead(account, route) else working
        found.append((IPv4Network(route["DestinationCidrBlock"]), _target(route)))
    if not _cover([*working, *dead]):  # reading the lists takes a permission of its own
        for route in lists:
            found = dead if _is_dead(account, route) else working
            found += [(cidr, _target(route)) for cidr in _entries(account, route["DestinationPrefixListId"])]
    return working, dead


def _is_dead(account: Account, route: Answer) -> bool:
    if route.get("State") == "blackhole":
        return True
    return _target(route) in {each["NatGatewayId"] for each in _gateways(account, route) if each["State"] in GONE}


def _gateways(account: Account, route: Answer) -> list[Answer]:
    if "NatGatewayId" not in route:
        return []
    found: list[Answer] = account.ask("ec2", "describe_nat_gateways")["NatGateways"]
    return found


def _target(route: Answer) -> str:
    return str(next((route[key] for key in TARGETS if route.get(key)), "its target"))


def _entries(account: Account, list_id: str) -> list[IPv4Network]:
    answer = account.ask("ec2", "get_managed_prefix_list_entries", PrefixListId=list_id)
    return [IPv4Network(each["Cidr"]) for each in answer["Entries"] if ":" not in each["Cidr"]]


def _routes(account: Account, network: Network) -> list[Answer]:
    """The routes of the subnet's route table, or else of the VPC's main one."""
    tables: list[Answer] = account.ask("ec2", "describe_route_tables")["RouteTables"]
    by_subnet = [table for table in tables if _associated(table, "SubnetId", network.subnet_id)]
    main = [table for table in tables if table["VpcId"] == network.vpc_id and _associated(table, "Main", True)]
    routes: list[Answer] = next(iter(by_subnet + main), {"Routes": []})["Routes"]
    return routes


def _associated(table: Answer, key: str, value: object) -> bool:
    return any(association.get(key) == value for association in table.get("Associations", []))


@validator("vpc-access-not-blocked", f"{BLOCKING}: block-bidirectional, exclusions")
def vpc_access_not_blocked(network: Network, path: Path, config: ClusterConfig, account: Account) -> Findings:
    """With internet: nat, VPC Block Public Access lets the NAT gateway reach the internet.

    A new VPC cannot be excluded before it exists.
    """
    if network.internet != "nat" or (not network.vpc_id and deployed(account, config)):
        return
    if _blocked(account) == "block-bidirectional" and not _is_excluded(account, network):
        yield Finding(
            (*path, "internet"),
            "the account blocks all traffic between VPCs and the internet (VPC Block Public Access: "
            "block-bidirectional): no node could download anything",
            "ask for an exclusion of an existing VPC, or for the mode block-ingress; or write internet: none",
            at="key",
        )


@validator("ssh-not-blocked", f"{BLOCKING}: block-ingress blocks all traffic from the internet", level="warning")
def ssh_not_blocked(network: Network, path: Path, config: ClusterConfig, account: Account) -> Findings:
    """With ssh_from, VPC Block Public Access lets connections from the internet reach the load balancer."""
    if not network.ssh_from or deployed(account, config):
        return
    if (mode := _blocked(account)) != "off":
        yield Finding(
            (*path, "ssh_from"),
            f"the account blocks connections from the internet (VPC Block Public Access: {mode}): "
            "nobody reaches the load balancer",
            "after `up` exclude the cluster's VPC (allow-bidirectional), or remove ssh_from: `gpucluster ssh` "
            "uses the Instance Connect Endpoint",
        )


def _blocked(account: Account) -> str:
    answer = account.ask("ec2", "describe_vpc_block_public_access_options")["VpcBlockPublicAccessOptions"]
    return str(answer.get("InternetGatewayBlockMode", "off"))


def _is_excluded(account: Account, network: Network) -> bool:
    """Whether an existing VPC, or the subnets of its NAT gateways, are excluded, or its way out is another."""
    if not network.vpc_id:
        return False
    leading, _ = _leading(account, network)
    targets = {target for _, target in leading}
    gateways = account.ask("ec2", "describe_nat_gateways")["NatGateways"]
    subnets = [each.get("SubnetId") for each in gateways if each["NatGatewayId"] in targets]
    answer = account.ask("ec2", "describe_vpc_block_public_access_exclusions")
    excluded = {
        each["ResourceArn"].rpartition("/")[2]
        for each in answer["VpcBlockPublicAccessExclusions"]
        if not each.get("State", "").startswith(("delete", "disable"))
    }
    return not subnets or network.vpc_id in excluded or excluded >= set(subnets)
