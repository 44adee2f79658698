"""Checks whether nodes can run in the existing VPC and subnet."""

from __future__ import annotations

from ipaddress import IPv4Network

from gpucluster.config.checks.network import BESIDE_NODES, DOCKER, VPC_CIDR, security_groups
from gpucluster.config.checks.online.account import Account, Answer, deployed, zone
from gpucluster.config.checks.online.things import SECURITY_GROUP, SUBNET, VPC
from gpucluster.config.document import Finding, Path
from gpucluster.config.models import ClusterConfig, Network
from gpucluster.config.validators import Findings, Validators

validator = Validators("Existing network (asks AWS)", needs="aws")
DNS = "https://docs.aws.amazon.com/Route53/latest/DeveloperGuide/hosted-zone-private-considerations.html"
SIZES = "https://docs.aws.amazon.com/vpc/latest/userguide/subnet-sizing.html; error InsufficientFreeAddressesInSubnet"
ENDPOINTS = "https://docs.aws.amazon.com/vpc/latest/privatelink/create-interface-endpoint.html: private DNS names"

OTHER_ACCOUNTS = "https://docs.aws.amazon.com/Route53/latest/DeveloperGuide/hosted-zone-private-associate-vpcs-different-accounts.html"
SERVERS = "https://docs.aws.amazon.com/vpc/latest/userguide/AmazonDNS-concepts.html: 169.254.169.253, fd00:ec2::253, .2"
AMAZON = ("AmazonProvidedDNS", "169.254.169.253", "fd00:ec2::253")
"""The names of the VPC's resolver in DHCP options; a further one is the address of the VPC's network plus two."""

OPTIONAL = (".sns",)
"""Without it, only e-mails about jobs do not arrive."""
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


@validator("vpc-is-yours", f"{OTHER_ACCOUNTS}; error InvalidVPCId of Route 53 CreateHostedZone: not authorized")
def vpc_is_yours(network: Network, path: Path, config: ClusterConfig, account: Account) -> Findings:
    """The VPC belongs to the cluster's account: Route 53 makes a private zone only in a VPC of the caller's account.

    AWS RAM shares subnets with other accounts, which may launch instances in them. The zone with the nodes' names would
    need an authorization by one account and an association by the other, which CloudFormation has no resource for.
    """
    vpc = VPC.look_up(account, network.vpc_id)
    mine = account.ask("sts", "get_caller_identity")["Account"] if vpc else None
    if vpc and vpc.get("OwnerId", mine) != mine:
        yield Finding(
            (*path, "vpc_id"),
            f"{network.vpc_id} belongs to the account {vpc['OwnerId']}: Route 53 makes no private zone in it "
            f"for {mine}",
            f"use a VPC of the account {mine}, or create the cluster in {vpc['OwnerId']}",
        )


@validator("vpc-dns-servers", f"{DNS}: custom DNS servers; {SERVERS}")
def vpc_dns_servers(network: Network, path: Path, config: ClusterConfig, account: Account) -> Findings:
    """The VPC's DHCP options name the VPC's own DNS server first: others do not know the names in a private zone.

    Nodes cannot ask the VPC's server for these names alone. systemd-resolved (255, Ubuntu 24.04) would send it every
    other name too, beside the servers of the network, and take the answer that comes first.
    """
    vpc = VPC.look_up(account, network.vpc_id)
    options = vpc.get("DhcpOptionsId", "default") if vpc else "default"
    if not vpc or options == "default":
        return
    answer = account.ask("ec2", "describe_dhcp_options", DhcpOptionsIds=[options])["DhcpOptions"]
    servers = [
        value["Value"]
        for each in answer
        for setting in each["DhcpConfigurations"]
        for value in setting["Values"]
        if setting["Key"] == "domain-name-servers"
    ]
    if not servers or servers[0] not in {*AMAZON, *(str(block[2]) for block in _blocks(vpc))}:
        yield Finding(
            (*path, "vpc_id"),
            f"{network.vpc_id} gives nodes the DNS servers {', '.join(servers) or 'none'} ({options}), "
            f"which do not know the names of {config.zone}",
            "put AmazonProvidedDNS first in its DHCP options; or, if these servers forward that name to the VPC's "
            "own, write silence: [vpc-dns-servers]",
        )


@validator(
    "vpc-blocks-not-docker",
    f"{VPC_CIDR}: some services use 172.17.0.0/16; Docker's bridge on each node does",
    level="warning",
)
def vpc_blocks_not_docker(network: Network, path: Path, config: ClusterConfig, account: Account) -> Findings:
    """An existing VPC's blocks do not overlap 172.17.0.0/16, which Docker uses on every node."""
    for block in _blocks(VPC.look_up(account, network.vpc_id) or {}):
        if block.overlaps(DOCKER):
            yield Finding(
                (*path, "vpc_id"),
                f"{block} of {network.vpc_id} overlaps {DOCKER}, the network of Docker on nodes",
                "use another VPC, or keep everything that nodes reach out of that range",
            )


def _blocks(vpc: Answer) -> list[IPv4Network]:
    """The VPC's IPv4 blocks."""
    held = [
        each["CidrBlock"]
        for each in vpc.get("CidrBlockAssociationSet", [])
        if each.get("CidrBlockState", {}).get("State") in ("associating", "associated")
    ]
    return [IPv4Network(each) for each in held]


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
    """With internet: none an existing VPC has endpoints with private DNS for every service that nodes need."""
    if not network.vpc_id or network.internet != "none":
        return
    there = {
        endpoint["ServiceName"]
        for endpoint in account.ask("ec2", "describe_vpc_endpoints")["VpcEndpoints"]
        if endpoint["VpcId"] == network.vpc_id and endpoint.get("State", "available").lower() == "available"
        if endpoint["VpcEndpointType"] == "Gateway" or endpoint.get("PrivateDnsEnabled")
    }
    missing = [name for name in needed_services(config) if name not in there and not name.endswith(OPTIONAL)]
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
        *(["fsx"] if config.asks_fsx else []),
        *(["sns"] if config.monitoring.alarm_email else []),
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


def _dashed(name: str) -> str:
    return "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in name)


@validator(
    "security-groups-in-vpc",
    "error InvalidParameter of EC2 RunInstances: Security group … belong to different networks",
)
def security_groups_in_vpc(config: ClusterConfig, account: Account) -> Findings:
    """Each of security_groups is in vpc_id."""
    for path, id_ in security_groups(config):
        group = SECURITY_GROUP.look_up(account, id_)
        if group and group.get("VpcId") != config.network.vpc_id:
            message = f"{id_} is in {group.get('VpcId')}, not in {config.network.vpc_id}"
            yield Finding(path, message, "name a security group of that VPC")
