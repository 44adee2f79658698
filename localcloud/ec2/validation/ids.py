"""Ids in EC2's requests: their form, and whether the resource exists."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from moto.ec2.models import EC2Backend

from localcloud.ec2 import kept, placement, reservations
from localcloud.ec2.networks import connect
from localcloud.validation.refusal import Refusal

Exists = Callable[[EC2Backend, str], bool]


@dataclass(frozen=True)
class Kind:
    prefix: str
    malformed: str
    not_found: str
    noun: str
    exists: Exists


def _in(attribute: str) -> Exists:
    return lambda backend, resource_id: resource_id in getattr(backend, attribute)


def _nested(attribute: str) -> Exists:
    return lambda backend, resource_id: any(resource_id in inner for inner in getattr(backend, attribute).values())


def _recorded(key: str, field: str) -> Exists:
    return lambda backend, wanted: any(record.get(field) == wanted for record in kept.of(backend, key).values())


def _allocated(backend: EC2Backend, allocation_id: str) -> bool:
    return any(address.allocation_id == allocation_id for address in backend.addresses)


def _is_rule(backend: EC2Backend, rule_id: str) -> bool:
    groups = [group for inner in backend.groups.values() for group in inner.values()]
    return any(rule.id == rule_id for group in groups for rule in [*group.ingress_rules, *group.egress_rules])


def _kind(prefix: str, stem: str, noun: str, exists: Exists, found: str | None = None) -> Kind:
    return Kind(prefix, f"Invalid{stem}.Malformed", found or f"Invalid{stem}.NotFound", noun, exists)


_INSTANCE = _kind("i", "InstanceID", "instance ID", lambda b, i: b.get_instance_by_id(i) is not None)
_VOLUME = _kind("vol", "VolumeID", "volume", _in("volumes"), "InvalidVolume.NotFound")
_SNAPSHOT = _kind("snap", "SnapshotID", "snapshot", _in("snapshots"), "InvalidSnapshot.NotFound")
_IMAGE = _kind("ami", "AMIID", "image id", _in("amis"))
_GROUP = _kind("sg", "GroupId", "security group", _nested("groups"), "InvalidGroup.NotFound")
_SUBNET = _kind("subnet", "SubnetID", "subnet ID", _nested("subnets"))
_VPC = _kind("vpc", "VpcID", "vpc ID", _in("vpcs"))
_IGW = _kind("igw", "InternetGatewayID", "internetGateway ID", _in("internet_gateways"))
_EIGW = _kind("eigw", "GatewayID", "gateway ID", _in("egress_only_internet_gateways"))
_TABLE = _kind("rtb", "RouteTableID", "routeTable ID", _in("route_tables"))
_NAT = _kind("nat", "NatGatewayID", "natGateway ID", _in("nat_gateways"))
# "NatGatewayNotFound: The specified NAT gateway does not exist": the error codes page has both.
_DELETED_NAT = _kind("nat", "NatGatewayID", "NAT gateway", _in("nat_gateways"), "NatGatewayNotFound")
_ADDRESS = _kind("eipalloc", "AllocationID", "allocation ID", _allocated)
_INTERFACE = _kind(
    "eni", "NetworkInterfaceId", "networkInterface ID", _in("enis"), "InvalidNetworkInterfaceID.NotFound"
)
_ENDPOINT = _kind("vpce", "VpcEndpointId", "Vpc Endpoint Id", _in("vpc_end_points"))
_ACL = _kind("acl", "NetworkAclID", "networkAcl ID", _in("network_acls"))
_TEMPLATE = _kind("lt", "LaunchTemplateId", "launch template", _in("launch_templates"))
_DHCP = _kind("dopt", "DhcpOptionsId", "dhcpOption ID", _in("dhcp_options_sets"), "InvalidDhcpOptionID.NotFound")
_HOST = _kind("h", "HostID", "host ID", _in("hosts"))
_PEERING = _kind("pcx", "VpcPeeringConnectionID", "vpcPeeringConnection ID", _in("vpc_pcxs"))
_FLOW_LOG = _kind("fl", "FlowLogId", "flow log ID", _in("flow_logs"))
_RESERVATION = _kind(
    "cr", "CapacityReservationId", "capacity reservation ID",
    _recorded(reservations.RESERVATIONS, "CapacityReservationId"),
)  # fmt: skip
_CONNECT = _kind(
    "eice", "InstanceConnectEndpointId", "instanceConnectEndpoint ID", lambda b, i: i in connect.endpoints(b)
)
_PLACEMENT = _kind(
    "pg", "PlacementGroupId", "placement group ID", _recorded(placement.GROUPS, "GroupId"),
    "InvalidPlacementGroup.Unknown",
)  # fmt: skip

_SPOT = _kind("sir", "SpotInstanceRequestID", "spot instance request ID", _in("spot_instance_requests"))
_LIST = _kind("pl", "PrefixListID", "prefix list ID", _in("managed_prefix_lists"))
_TRANSIT = _kind("tgw", "TransitGatewayID", "transit gateway ID", _in("transit_gateways"))
_TRANSIT_TABLE = _kind(
    "tgw-rtb", "RouteTableID", "transit gateway route table ID", _in("transit_gateways_route_tables")
)
_TRANSIT_ATTACHMENT = _kind(
    "tgw-attach", "TransitGatewayAttachmentID", "transit gateway attachment ID", _in("transit_gateway_attachments")
)

_RULE = _kind("sgr", "SecurityGroupRuleId", "security group rule ID", _is_rule)

_BY_MEMBER = {
    "InstanceId": _INSTANCE, "VolumeId": _VOLUME, "SnapshotId": _SNAPSHOT, "ImageId": _IMAGE,
    "SecurityGroupId": _GROUP, "GroupId": _GROUP, "SubnetId": _SUBNET, "VpcId": _VPC, "InternetGatewayId": _IGW,
    "EgressOnlyInternetGatewayId": _EIGW, "RouteTableId": _TABLE, "NatGatewayId": _NAT, "AllocationId": _ADDRESS,
    "NetworkInterfaceId": _INTERFACE, "VpcEndpointId": _ENDPOINT, "NetworkAclId": _ACL, "LaunchTemplateId": _TEMPLATE,
    "DhcpOptionsId": _DHCP, "HostId": _HOST, "VpcPeeringConnectionId": _PEERING, "FlowLogId": _FLOW_LOG,
    "CapacityReservationId": _RESERVATION, "InstanceConnectEndpointId": _CONNECT, "Groups": _GROUP,
    "SpotInstanceRequestId": _SPOT, "TransitGatewayId": _TRANSIT, "TransitGatewayRouteTableId": _TRANSIT_TABLE,
    "TransitGatewayAttachmentId": _TRANSIT_ATTACHMENT, "SecurityGroupRuleId": _RULE,
}  # fmt: skip
_BY_PREFIX = {kind.prefix: kind for kind in (*_BY_MEMBER.values(), _PLACEMENT)}
# Actions on a customer-managed prefix list. Other actions also accept AWS's own lists, which are not recorded here.
_LISTS = {"ModifyManagedPrefixList", "DeleteManagedPrefixList", "GetManagedPrefixListEntries"}
# EC2 does not check the ids in these, or reports them in its answer.
_UNSEEN = {"LaunchTemplateData", "LaunchTemplateConfigs", "Filters", "Tags", "TagSpecifications"}
# Actions whose error for a missing resource comes from moto, or that accept deleted resources.
_OWN_WORDS = {
    "DescribeInstances", "DescribeInstanceStatus", "TerminateInstances", "StartInstances", "StopInstances",
    "RebootInstances", "DescribeNatGateways", "DescribeFleets", "DeleteFlowLogs",
    "DeleteVpcEndpoints", "DescribeImages", "DescribeSecurityGroupRules", "DescribeAddresses", "DescribeTags",
}  # fmt: skip
# Parameters whose names begin with the prefix are ids in the Region and the account that these members name.
_PLACES = {"Source": ("SourceRegion",), "Peer": ("PeerRegion", "PeerOwnerId")}
_FORM = re.compile(r"[a-z]+-([0-9a-f]{8}|[0-9a-f]{17})")
_PARAMETER = "resolve:ssm:"


def check(backend: EC2Backend, action: str, parameters: dict[str, Any]) -> None:
    for kind, resource_id in _named(action, _here(backend, parameters)):
        if resource_id.startswith(_PARAMETER) or (kind is _DHCP and resource_id == "default"):
            continue
        if not is_id(kind.prefix, resource_id):
            raise Refusal(kind.malformed, f'Invalid id: "{resource_id}" (expecting "{kind.prefix}-...")')
        known = action in _OWN_WORDS or (action, kind) == ("RunInstances", _IMAGE)
        if not known and not kind.exists(backend, resource_id):
            raise missing(_DELETED_NAT if (action, kind) == ("DeleteNatGateway", _NAT) else kind, resource_id)


def _here(backend: EC2Backend, parameters: dict[str, Any]) -> dict[str, Any]:
    """Leaves out ids of another Region or account, which cannot be looked up here."""
    ours = (None, "", backend.region_name, backend.account_id)
    away = tuple(prefix for prefix, names in _PLACES.items() if any(parameters.get(name) not in ours for name in names))
    return {name: value for name, value in parameters.items() if not name.startswith(away)}


def is_id(prefix: str, value: str) -> bool:
    return value.startswith(f"{prefix}-") and _FORM.fullmatch(value) is not None


def missing(kind: Kind, resource_id: str) -> Refusal:
    told = f"[{resource_id}]" if kind is _IMAGE else resource_id
    return Refusal(kind.not_found, f"The {kind.noun} '{told}' does not exist")


def _named(action: str, value: Any, member: str = "", parent: str = "") -> Iterator[tuple[Kind, str]]:
    """Every id in the parameters, with the kind of resource that its parameter requires."""
    if member in _UNSEEN:
        return
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _named(action, inner, name, member)
    elif isinstance(value, list):
        for inner in value:
            yield from _named(action, inner, member, parent)
    elif isinstance(value, str) and value and (kind := _wanted(action, member, parent, value)):
        yield kind, value


def _wanted(action: str, member: str, parent: str, value: str) -> Kind | None:
    if member == "Resources" and action in ("CreateTags", "DeleteTags"):
        return _BY_PREFIX.get(value.partition("-")[0])
    if member in ("GroupId", "GroupIds") and (parent == "Placement" or "PlacementGroup" in action):
        return _PLACEMENT
    if member == "PrefixListId":
        return _LIST if action in _LISTS else None
    if member == "GatewayId":
        return _BY_PREFIX.get(value.partition("-")[0])
    stem = re.sub("^(Add|Remove|Peer|Accepter|Source)(?=[A-Z])", "", member)
    return _BY_MEMBER.get(stem) or _BY_MEMBER.get(stem.removesuffix("s"))
