"""VPCs, subnets, routes, addresses, interfaces and endpoints: ranges, states, and deletion of resources in use.

https://docs.aws.amazon.com/vpc/latest/userguide/vpc-cidr-blocks.html, .../subnet-sizing.html, and the error codes page.
"""

from __future__ import annotations

import ipaddress
from typing import Any

from moto.ec2.models import EC2Backend

from localcloud.ec2.validation.model import invalid
from localcloud.validation import documents
from localcloud.validation.refusal import Refusal

Given = dict[str, Any]
_SIZES = range(16, 29)  # of VPCs and subnets
_RESERVED = 4  # addresses at the start of a subnet; the last address is reserved too
_ROUTE_TARGETS = (
    "GatewayId", "NatGatewayId", "InstanceId", "NetworkInterfaceId", "VpcPeeringConnectionId", "TransitGatewayId",
    "EgressOnlyInternetGatewayId", "VpcEndpointId", "LocalGatewayId", "CarrierGatewayId", "CoreNetworkArn",
    "OdbNetworkArn",
)  # fmt: skip
_DESTINATIONS = ("DestinationCidrBlock", "DestinationIpv6CidrBlock", "DestinationPrefixListId")


def in_use(noun: str, resource_id: str) -> Refusal:
    return Refusal("DependencyViolation", f"The {noun} '{resource_id}' has dependencies and cannot be deleted.")


def create_vpc(backend: EC2Backend, given: Given) -> None:
    block = given.get("CidrBlock")
    if not block and not given.get("Ipv4IpamPoolId"):
        raise Refusal("MissingParameter", "The request must contain the parameter cidrBlock or ipv4IpamPoolId")
    if block and ipaddress.ip_network(block, strict=False).prefixlen not in _SIZES:
        raise Refusal("InvalidVpc.Range", f"The CIDR '{block}' is invalid.")


def create_subnet(backend: EC2Backend, given: Given) -> None:
    block = given.get("CidrBlock")
    if block and ipaddress.ip_network(block, strict=False).prefixlen not in _SIZES:
        raise Refusal("InvalidSubnet.Range", f"The CIDR '{block}' is invalid.")
    zone, zones = given.get("AvailabilityZone"), [each.name for each in backend.describe_availability_zones()]
    if zone and zone not in zones:
        raise invalid(
            "availabilityZone", zone, f"Subnets can currently only be created in the following availability zones: "
            f"{', '.join(zones)}.",
        )  # fmt: skip


def delete_subnet(backend: EC2Backend, given: Given) -> None:
    subnet_id = str(given["SubnetId"])
    if any(interface.subnet.id == subnet_id for interface in backend.enis.values()):
        raise in_use("subnet", subnet_id)


def delete_vpc(backend: EC2Backend, given: Given) -> None:
    vpc_id = str(given["VpcId"])
    groups = [group for group in backend.groups.get(vpc_id, {}).values() if group.name != "default"]
    endpoints = [e for e in backend.vpc_end_points.values() if e.vpc_id == vpc_id and e.state != "deleted"]
    peerings = [p for p in backend.vpc_pcxs.values() if vpc_id in (p.vpc.id, p.peer_vpc.id) and _is_active(p)]
    if groups or endpoints or peerings:
        raise in_use("vpc", vpc_id)


def _is_active(peering: Any) -> bool:
    return peering._status.code not in ("deleted", "rejected", "failed", "expired")


def attach_internet_gateway(backend: EC2Backend, given: Given) -> None:
    gateway_id, vpc_id = str(given["InternetGatewayId"]), str(given["VpcId"])
    if backend.internet_gateways[gateway_id].vpc:
        raise Refusal("Resource.AlreadyAssociated", f"resource {gateway_id} is already attached to network {vpc_id}")
    if attached(backend, vpc_id):
        raise Refusal("InvalidParameterValue", f"Network {vpc_id} already has an internet gateway attached")


def attached(backend: EC2Backend, vpc_id: str) -> bool:
    return any(gateway.vpc and gateway.vpc.id == vpc_id for gateway in backend.internet_gateways.values())


def detach_internet_gateway(backend: EC2Backend, given: Given) -> None:
    gateway_id, vpc_id = str(given["InternetGatewayId"]), str(given["VpcId"])
    held = backend.internet_gateways[gateway_id].vpc
    if not held or held.id != vpc_id:
        raise Refusal("Gateway.NotAttached", f"resource {gateway_id} is not attached to network {vpc_id}")
    if any(address.eni and address.eni.subnet.vpc_id == vpc_id for address in backend.addresses) or any(
        interface.public_ip and interface.subnet.vpc_id == vpc_id for interface in backend.enis.values()
    ):
        raise Refusal(
            "DependencyViolation",
            f"Network {vpc_id} has some mapped public address(es). Please unmap those public address(es) before "
            "detaching the gateway.",
        )


def create_route(backend: EC2Backend, given: Given) -> None:
    destinations = [given[name] for name in _DESTINATIONS if given.get(name)]
    targets = [name for name in _ROUTE_TARGETS if given.get(name)]
    if len(destinations) != 1:
        raise Refusal("MissingParameter" if not destinations else "InvalidParameterCombination",
                      "The request must contain exactly one destination")  # fmt: skip
    if len(targets) != 1:
        code = "MissingParameter" if not targets else "InvalidParameterCombination"
        raise Refusal(code, f"The request must contain exactly one of {', '.join(_ROUTE_TARGETS)}")
    table = backend.route_tables[str(given["RouteTableId"])]
    for route in table._routes.values():
        prefix_list = route.destination_prefix_list.id if route.destination_prefix_list else None
        if destinations[0] in (route.destination_cidr_block, route.destination_ipv6_cidr_block, prefix_list):
            raise Refusal("RouteAlreadyExists", f"The route identified by {destinations[0]} already exists.")
    _check_gateway(backend, table.vpc_id, given)


def _check_gateway(backend: EC2Backend, vpc_id: str, given: Given) -> None:
    gateway_id = str(given.get("GatewayId") or "")
    if gateway_id.startswith("igw-"):
        vpc = backend.internet_gateways[gateway_id].vpc
        if vpc is None or vpc.id != vpc_id:
            raise invalid(
                "gatewayId", gateway_id,
                f"route table and network gateway {gateway_id} belong to different networks", "InvalidParameterValue",
            )  # fmt: skip
    nat = backend.nat_gateways.get(str(given.get("NatGatewayId") or ""))
    if nat and backend.get_subnet(nat.subnet_id).vpc_id != vpc_id:
        raise invalid("natGatewayId", nat.id, "The route table and the NAT gateway belong to different networks.")


def delete_route(backend: EC2Backend, given: Given) -> None:
    table = backend.route_tables[str(given["RouteTableId"])]
    wanted = next((given[name] for name in _DESTINATIONS if given.get(name)), None)
    for route in table._routes.values():
        prefix_list = route.destination_prefix_list.id if route.destination_prefix_list else None
        if wanted in (route.destination_cidr_block, route.destination_ipv6_cidr_block, prefix_list):
            if route.local:
                raise Refusal("InvalidParameterValue", f"cannot remove local route {wanted} in route table {table.id}")
            return
    raise Refusal("InvalidRoute.NotFound", f"no route with destination-cidr-block {wanted} in route table {table.id}")


def associate_route_table(backend: EC2Backend, given: Given) -> None:
    table = backend.route_tables[str(given["RouteTableId"])]
    if not given.get("SubnetId"):
        return
    subnet = backend.get_subnet(str(given["SubnetId"]))
    if subnet.vpc_id != table.vpc_id:
        raise Refusal(
            "InvalidParameterValue", f"Route table {table.id} and subnet {subnet.id} belong to different networks"
        )
    for other in backend.route_tables.values():
        if subnet.id in other._associations.values() and other.id != table.id:
            raise Refusal(
                "Resource.AlreadyAssociated",
                f"the specified association for route table {table.id} conflicts with an existing association",
            )


def disassociate_route_table(backend: EC2Backend, given: Given) -> None:
    association_id = str(given["AssociationId"])
    if any(table.main_association_id == association_id for table in backend.route_tables.values()):
        raise Refusal("InvalidParameterValue", f"cannot disassociate the main route table association {association_id}")


def one_attribute(backend: EC2Backend, given: Given) -> None:
    """ModifyVpcAttribute and ModifySubnetAttribute change one attribute per call."""
    named = [name for name in given if name not in ("VpcId", "SubnetId", "DryRun") and given[name] is not None]
    if len(named) > 1:
        raise Refusal("InvalidParameterCombination", "Fields for multiple attribute types specified")
    if not named:
        raise Refusal("InvalidParameterCombination", "No attributes specified.")


def delete_route_table(backend: EC2Backend, given: Given) -> None:
    table = backend.route_tables[str(given["RouteTableId"])]
    if table.main_association_id or table._associations:
        raise in_use("routeTable", table.id)


def release_address(backend: EC2Backend, given: Given) -> None:
    for address in backend.addresses:
        if given.get("AllocationId") == address.allocation_id and address.association_id and address.eni:
            raise Refusal("InvalidIPAddress.InUse", f"Address {address.public_ip} is in use.")


def associate_address(backend: EC2Backend, given: Given) -> None:
    interface = backend.enis.get(str(given.get("NetworkInterfaceId") or ""))
    instance = backend.get_instance_by_id(str(given.get("InstanceId") or ""))
    if not given.get("NetworkInterfaceId") and not given.get("InstanceId"):
        raise Refusal("MissingParameter", "Either instance ID or network interface id must be specified")
    if not interface:
        check_single(instance)
    vpc_id = interface.subnet.vpc_id if interface else instance.vpc_id if instance else None
    if vpc_id and not attached(backend, vpc_id):
        raise Refusal("Gateway.NotAttached", f"Network {vpc_id} is not attached to any internet gateway")


def create_nat_gateway(backend: EC2Backend, given: Given) -> None:
    public = given.get("ConnectivityType") != "private"
    if public and not given.get("AllocationId") and given.get("SubnetId"):
        raise Refusal("MissingParameter", "The request must contain the parameter AllocationId")
    if not public and given.get("AllocationId"):
        raise Refusal("InvalidParameterCombination", "A private NAT gateway cannot have an elastic IP address.")
    if given.get("PrivateIpAddress") and given.get("SubnetId"):
        check_address(backend.get_subnet(str(given["SubnetId"])), str(given["PrivateIpAddress"]))
    for address in backend.addresses:
        if address.allocation_id == given.get("AllocationId") and address.association_id:
            raise Refusal(
                "Resource.AlreadyAssociated", f"Elastic IP address [{address.allocation_id}] is already associated"
            )


def delete_interface(backend: EC2Backend, given: Given) -> None:
    interface = backend.enis[str(given["NetworkInterfaceId"])]
    if interface.instance or any(
        address.eni is interface and _is_nat(backend, address) for address in backend.addresses
    ):
        raise Refusal("InvalidParameterValue", f"Network interface '{interface.id}' is currently in use.")


def _is_nat(backend: EC2Backend, address: Any) -> bool:
    return any(gateway._eni is address.eni and gateway.state != "deleted" for gateway in backend.nat_gateways.values())


def create_interface(backend: EC2Backend, given: Given) -> None:
    subnet = backend.get_subnet(str(given["SubnetId"]))
    if address := given.get("PrivateIpAddress"):
        check_address(subnet, str(address))
    _check_groups(backend, given.get("Groups") or [], subnet.vpc_id)


def _check_groups(backend: EC2Backend, group_ids: list[str], vpc_id: str) -> None:
    for group_id in group_ids:
        group = backend.get_security_group_from_id(group_id)
        if group and group.vpc_id != vpc_id:
            raise Refusal(
                "InvalidParameterValue", "You have specified two resources that belong to different networks."
            )


def connect_endpoint(backend: EC2Backend, given: Given) -> None:
    subnet = backend.get_subnet(str(given["SubnetId"]))
    _check_groups(backend, given.get("SecurityGroupIds") or [], subnet.vpc_id)


def change_interface(backend: EC2Backend, given: Given) -> None:
    interface = backend.enis[str(given["NetworkInterfaceId"])]
    _check_groups(backend, given.get("Groups") or [], interface.subnet.vpc_id)


def change_instance(backend: EC2Backend, given: Given) -> None:
    instance = backend.get_instance(str(given["InstanceId"]))
    if given.get("Groups"):
        check_single(instance)
    _check_groups(backend, [str(each) for each in given.get("Groups") or []], str(instance.vpc_id))


def check_single(instance: Any) -> None:
    if instance is not None and len(instance.nics) > 1:
        raise Refusal(
            "InvalidInstanceID",
            f"There are multiple interfaces attached to instance '{instance.id}'. Please specify an interface ID for "
            "the operation instead.",
        )


def check_address(subnet: Any, address: str) -> None:
    try:
        wanted = ipaddress.ip_address(address)
    except ValueError:
        raise invalid("address", address, "Invalid IPv4 address.") from None
    network = ipaddress.ip_network(subnet.cidr_block)
    if wanted not in network:
        raise Refusal("InvalidParameterValue", f"Address {address} does not fall within the subnet's address range")
    if int(wanted) - int(network.network_address) < _RESERVED or wanted == network[-1]:
        raise Refusal("InvalidParameterValue", f"Address {address} is in subnet's reserved address range")
    if address in subnet._subnet_ips or any(
        address in {each.get("PrivateIpAddress") for each in interface.private_ip_addresses}
        for interface in subnet.ec2_backend.enis.values()
        if interface.subnet.id == subnet.id
    ):
        raise Refusal("InvalidIPAddress.InUse", f"Address {address} is in use.")


def policy(backend: EC2Backend, given: Given) -> None:
    """Checks the policy of an endpoint."""
    if given.get("PolicyDocument"):
        try:
            documents.check(str(given["PolicyDocument"]), resource_policy=True)
        except ValueError as error:
            raise Refusal("InvalidPolicyDocument", f"The policy document is not valid: {error}") from None


def create_endpoint(backend: EC2Backend, given: Given) -> None:
    subnet_ids = given.get("SubnetIds") or []
    kind = str(given.get("VpcEndpointType") or "Gateway").lower()
    zones = [backend.get_subnet(subnet_id).availability_zone for subnet_id in subnet_ids]
    if len(set(zones)) < len(zones):
        raise Refusal("DuplicateSubnetsInSameZone", "Found another VPC endpoint subnet in the availability zone of "
                      f"{subnet_ids[-1]}")  # fmt: skip
    if any(backend.get_subnet(subnet_id).vpc_id != given["VpcId"] for subnet_id in subnet_ids):
        raise Refusal("InvalidParameter", f"The subnets are not all in the VPC {given['VpcId']}.")
    if kind == "interface" and given.get("RouteTableIds"):
        raise Refusal("InvalidParameter", "RouteTableIds are not supported for interface endpoints.")
    service = str(given.get("ServiceName") or "").rpartition(".")[2]
    if kind == "gateway" and service not in ("s3", "dynamodb", "s3express"):
        raise Refusal("InvalidParameter", "Endpoint type (Gateway) does not match available service types "
                      "([Interface]).")  # fmt: skip
    if kind == "gateway" and (subnet_ids or given.get("SecurityGroupIds")):
        raise Refusal("InvalidParameter", "Gateway endpoints take neither subnets nor security groups.")
    _check_groups(backend, given.get("SecurityGroupIds") or [], str(given["VpcId"]))
    for table_id in given.get("RouteTableIds") or []:
        _check_endpoint_table(backend, table_id, given)


def _check_endpoint_table(backend: EC2Backend, table_id: str, given: Given) -> None:
    if backend.route_tables[table_id].vpc_id != given["VpcId"]:
        raise Refusal("InvalidParameter", f"route table {table_id} is not in the VPC {given['VpcId']}.")
    for endpoint in backend.vpc_end_points.values():
        same = endpoint.vpc_id == given["VpcId"] and endpoint.service_name == given.get("ServiceName")
        if same and endpoint.state != "deleted" and table_id in endpoint.route_table_ids:
            raise Refusal(
                "RouteAlreadyExists",
                f"route table {table_id} already has a route with destination-prefix-list-id of {given['ServiceName']}",
            )
