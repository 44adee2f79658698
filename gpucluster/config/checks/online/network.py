"""Checks whether nodes can run in the existing VPC and subnet."""

from __future__ import annotations

from gpucluster.config.checks.network import BESIDE_NODES
from gpucluster.config.checks.online.account import Account, Answer, deployed, zone
from gpucluster.config.checks.online.things import SUBNET, VPC
from gpucluster.config.document import Finding, Path
from gpucluster.config.models import ClusterConfig, Network
from gpucluster.config.validators import Findings, Validators

validator = Validators("Existing network (asks AWS)", needs="aws")
DNS = "https://docs.aws.amazon.com/Route53/latest/DeveloperGuide/hosted-zone-private-considerations.html"
SIZES = "https://docs.aws.amazon.com/vpc/latest/userguide/subnet-sizing.html; error InsufficientFreeAddressesInSubnet"
ROUTES = "https://docs.aws.amazon.com/vpc/latest/userguide/vpc-nat-gateway.html"
CONNECT = "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/eice-quotas.html: one for each VPC"
ENDPOINTS = "https://docs.aws.amazon.com/vpc/latest/privatelink/create-interface-endpoint.html: private DNS names"

NEEDED_ENDPOINTS = ("ec2", "ssm", "secretsmanager", "logs", "monitoring")


@validator("vpc-resolves-names", f"{DNS}: enableDnsHostnames and enableDnsSupport")
def vpc_resolves_names(network: Network, path: Path, config: ClusterConfig, account: Account) -> Findings:
    """The VPC resolves the names of private zones: nodes find each other by these names."""
    if not network.vpc_id or VPC.look_up(account, network.vpc_id) is None:
        return
    for attribute, key in (("enableDnsSupport", "EnableDnsSupport"), ("enableDnsHostnames", "EnableDnsHostnames")):
        answer = account.ask("ec2", "describe_vpc_attribute", VpcId=network.vpc_id, Attribute=attribute)
        if not answer[key]["Value"]:
            command = f"aws ec2 modify-vpc-attribute --vpc-id {network.vpc_id} --{_dashed(attribute)} Value=true"
            yield Finding((*path, "vpc_id"), f"{attribute} is off in {network.vpc_id}", command)


@validator("vpc-has-no-zone-of-the-name", "error ConflictingDomainExists of Route 53 CreateHostedZone")
def vpc_has_no_zone_of_the_name(network: Network, path: Path, config: ClusterConfig, account: Account) -> Findings:
    """The VPC has no private zone of the cluster's name: a VPC cannot have two of the same name."""
    if not network.vpc_id or deployed(account, config):
        return
    answer = account.ask("route53", "list_hosted_zones_by_vpc", VPCId=network.vpc_id, VPCRegion=config.region)
    if any(found["Name"].rstrip(".") == config.zone for found in answer["HostedZoneSummaries"]):
        yield Finding(
            ("name",),
            f"{network.vpc_id} already has a private zone {config.zone}",
            "choose another name for the cluster",
        )


@validator("vpc-has-no-connect-endpoint", CONNECT)
def vpc_has_no_connect_endpoint(network: Network, path: Path, config: ClusterConfig, account: Account) -> Findings:
    """The VPC has no other EC2 Instance Connect Endpoint: a VPC can have only one."""
    if not network.vpc_id or deployed(account, config):
        return
    filters = [{"Name": "vpc-id", "Values": [network.vpc_id]}]
    found = account.ask("ec2", "describe_instance_connect_endpoints", Filters=filters)["InstanceConnectEndpoints"]
    for name in (each["InstanceConnectEndpointId"] for each in found if each["VpcId"] == network.vpc_id):
        yield Finding(
            (*path, "vpc_id"),
            f"{network.vpc_id} already has an Instance Connect Endpoint: {name}",
            "use another VPC, or delete that endpoint if nobody needs it",
        )


@validator(
    "subnet-in-vpc",
    "error InvalidParameter of EC2 RunInstances: security group and subnet belong to different networks",
)
def subnet_in_vpc(network: Network, path: Path, config: ClusterConfig, account: Account) -> Findings:
    """The subnet is in the VPC."""
    subnet = SUBNET.look_up(account, network.subnet_id)
    if subnet and network.vpc_id and subnet["VpcId"] != network.vpc_id:
        yield Finding((*path, "subnet_id"), f"{network.subnet_id} is in {subnet['VpcId']}, not in {network.vpc_id}")


@validator("subnet-zone", "error InvalidVolume.ZoneMismatch of EC2 AttachVolume; InvalidParameterValue of RunInstances")
def subnet_zone(network: Network, path: Path, config: ClusterConfig, account: Account) -> Findings:
    """The subnet is in the cluster's availability zone, which has the head node's volume."""
    subnet, here = SUBNET.look_up(account, network.subnet_id), zone(account, config)
    if subnet and subnet["AvailabilityZone"] != here:
        yield Finding(
            (*path, "subnet_id"),
            f"{network.subnet_id} is in {subnet['AvailabilityZone']}, the cluster in {here}",
            f"write availability_zone: {subnet['AvailabilityZone']}",
        )


@validator("subnet-has-room", SIZES)
def subnet_has_room(network: Network, path: Path, config: ClusterConfig, account: Account) -> Findings:
    """The subnet has free addresses for the head node and the nodes that are always on."""
    yield from _no_room(network, path, account, _nodes(config, always=True), "always on")


@validator("subnet-has-room-for-all", SIZES, level="warning")
def subnet_has_room_for_all(network: Network, path: Path, config: ClusterConfig, account: Account) -> Findings:
    """The subnet has free addresses for max_nodes of every partition."""
    subnet, always = SUBNET.look_up(account, network.subnet_id), _nodes(config, always=True)
    if subnet and subnet["AvailableIpAddressCount"] >= always + BESIDE_NODES:
        yield from _no_room(network, path, account, _nodes(config, always=False), "at most")


@validator("subnet-leads-out", f"{ROUTES}: default route")
def subnet_leads_out(network: Network, path: Path, config: ClusterConfig, account: Account) -> Findings:
    """With internet: nat the subnet's default route leads to a NAT gateway or the like, not to an internet gateway."""
    if network.subnet_id is None or network.internet != "nat" or SUBNET.look_up(account, network.subnet_id) is None:
        return
    routes = _routes(account, network)
    default = next((route for route in routes if route.get("DestinationCidrBlock") == "0.0.0.0/0"), None)
    if default is None:
        hint = "add a route from 0.0.0.0/0 to a NAT gateway, or write internet: none"
        yield Finding((*path, "subnet_id"), f"{network.subnet_id} has no route to the internet", hint)
    elif default.get("GatewayId", "").startswith("igw-"):
        yield Finding(
            (*path, "subnet_id"),
            f"{network.subnet_id} is public, it leads to {default['GatewayId']}: nodes have no public address",
            "name a subnet whose default route leads to a NAT gateway",
        )


@validator(
    "subnet-gives-no-public-addresses",
    "error InvalidParameterCombination of EC2 RunInstances: associatePublicIPAddress and several interfaces",
    level="warning",
)
def subnet_gives_no_public_addresses(network: Network, path: Path, config: ClusterConfig, account: Account) -> Findings:
    """The subnet gives no public addresses (MapPublicIpOnLaunch): nodes with several interfaces cannot have one."""
    subnet = SUBNET.look_up(account, network.subnet_id)
    if subnet and subnet.get("MapPublicIpOnLaunch"):
        yield Finding(
            (*path, "subnet_id"),
            f"{network.subnet_id} gives instances public addresses",
            f"aws ec2 modify-subnet-attribute --subnet-id {network.subnet_id} --no-map-public-ip-on-launch",
        )


@validator("vpc-has-endpoints", ENDPOINTS)
def vpc_has_endpoints(network: Network, path: Path, config: ClusterConfig, account: Account) -> Findings:
    """With internet: none an existing VPC has endpoints with private DNS for every service that nodes call."""
    if not network.vpc_id or network.internet != "none":
        return
    there = {
        endpoint["ServiceName"]
        for endpoint in account.ask("ec2", "describe_vpc_endpoints")["VpcEndpoints"]
        if endpoint["VpcId"] == network.vpc_id and endpoint.get("State", "available").lower() == "available"
        if endpoint["VpcEndpointType"] == "Gateway" or endpoint.get("PrivateDnsEnabled")
    }
    missing = [name for name in needed_services(config) if name not in there]
    if missing:
        yield Finding(
            (*path, "vpc_id"),
            f"{network.vpc_id} has no endpoint with private DNS for {', '.join(missing)}",
            "create these endpoints, or write internet: nat",
        )


@validator(
    "endpoint-services-in-zone",
    "https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_ServiceDetail.html: AvailabilityZones; "
    "error InvalidParameter of EC2 CreateVpcEndpoint: the VPC endpoint service does not support the zone of the subnet",
)
def endpoint_services_in_zone(network: Network, path: Path, config: ClusterConfig, account: Account) -> Findings:
    """With internet: none, AWS offers the endpoints that the stack makes in the cluster's zone.

    Route 53's service is always in us-east-1, so it is not checked.
    """
    place = zone(account, config)
    if network.internet != "none" or network.vpc_id or not place:
        return
    names = [name for name in needed_services(config) if config.region in name and not name.endswith(".s3")]
    answer = account.ask("ec2", "describe_vpc_endpoint_services", ServiceNames=names)
    elsewhere = [
        each["ServiceName"] for each in answer["ServiceDetails"] if place not in each.get("AvailabilityZones", [place])
    ]
    if elsewhere:
        yield Finding(
            (*path, "internet"),
            f"{place} offers no endpoints of {', '.join(sorted(elsewhere))}",
            "choose another availability_zone, or internet: nat",
        )


def needed_services(config: ClusterConfig) -> list[str]:
    """The services of the endpoints that stacks/endpoints.py creates in a new VPC."""
    names = [
        *NEEDED_ENDPOINTS,
        *(["sts"] if config.jobs_have_role else []),
        *(["fsx"] if config.lustre_with_jobs else []),
        "s3",
    ]
    return ["com.amazonaws.route53", *(f"com.amazonaws.{config.region}.{name}" for name in names)]


def _no_room(network: Network, path: Path, account: Account, nodes: int, when: str) -> Findings:
    subnet = SUBNET.look_up(account, network.subnet_id)
    if subnet and subnet["AvailableIpAddressCount"] < nodes + BESIDE_NODES:
        yield Finding(
            (*path, "subnet_id"),
            f"{network.subnet_id} has {subnet['AvailableIpAddressCount']} free addresses, "
            f"but {nodes} nodes {when} need {nodes + BESIDE_NODES} with everything else",
            "lower max_nodes, or name a larger subnet",
        )


def _nodes(config: ClusterConfig, *, always: bool) -> int:
    return sum(partition.min_nodes if always else partition.max_nodes for partition in config.every_partition)


def _routes(account: Account, network: Network) -> list[Answer]:
    """The routes of the subnet's route table, or else of the VPC's main one."""
    tables: list[Answer] = account.ask("ec2", "describe_route_tables")["RouteTables"]
    by_subnet = [table for table in tables if _associated(table, "SubnetId", network.subnet_id)]
    main = [table for table in tables if table["VpcId"] == network.vpc_id and _associated(table, "Main", True)]
    routes: list[Answer] = next(iter(by_subnet + main), {"Routes": []})["Routes"]
    return routes


def _associated(table: Answer, key: str, value: object) -> bool:
    return any(association.get(key) == value for association in table.get("Associations", []))


def _dashed(name: str) -> str:
    return "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in name)
