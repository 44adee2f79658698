"""What lies in the cluster's VPC, or uses its security groups, and is not the cluster's.

CloudFormation cannot delete a subnet, a security group or a VPC that somebody else uses. It finds that out last, when
the head node and its volume are gone, and does not say who it is.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from gpucluster.cluster import stack, tagged_instances
from gpucluster.errors import CloudError, UsageError

GUARDDUTY = {"Name": "tag:GuardDutyManaged", "Values": ["true"]}
"""GuardDuty's Runtime Monitoring makes an endpoint and a security group in every VPC with instances, and never deletes
them (GuardDuty user guide, "Disabling, uninstalling, and cleaning up resources in Runtime Monitoring")."""
POLL_S = 5.0
ENDPOINT_GONE_S = 900.0
"""EC2 needs 5 to 10 minutes to delete an endpoint."""

FIREWALL_MANAGER = "FMManagedSecurityGroup"
"""The beginning of the names of groups that AWS Firewall Manager makes in a VPC and keeps on its instances."""

Filters = list[dict[str, Any]]


@dataclass(frozen=True)
class Belongings:
    """What the stack and its nodes are."""

    cluster: str
    vpcs: tuple[str, ...]
    """VPCs that are deleted with the stack."""
    groups: frozenset[str]
    ids: frozenset[str]
    """Physical ids of all resources of the stack, and its nodes."""


def belongings(cloudformation: Any, ec2: Any, name: str, *, network_stays: bool) -> Belongings:
    found = stack.all_physical_ids(cloudformation, name)
    nodes = {each["InstanceId"] for each in tagged_instances.find(ec2, cluster=name)}
    return Belongings(
        cluster=name,
        vpcs=() if network_stays else tuple(found.get("AWS::EC2::VPC", ())),
        groups=frozenset(found.get("AWS::EC2::SecurityGroup", ())),
        ids=frozenset(each for ids in found.values() for each in ids) | nodes,
    )


def others(ec2: Any, own: Belongings) -> list[str]:
    """Everything that would make the deletion fail, each with its id."""
    return list(dict.fromkeys([*_by_interface(ec2, own), *_by_rule(ec2, own), *_in_vpc(ec2, own)]))


def refusal(found: list[str], name: str) -> UsageError:
    what = f"{name} cannot be deleted while others use its network: {'; '.join(found)}"
    return UsageError(what, "nothing was deleted: delete or move these first, then run `gpucluster down` again")


def _by_interface(ec2: Any, own: Belongings) -> Iterator[str]:
    """Instances, and whatever else has a network interface, such as a Lambda function or a database."""
    guardduty = set(_guardduty_groups(ec2, own))
    interfaces = _interfaces(ec2, own)
    # The head node may have launched a node since `belongings`, so the nodes are looked up after the interfaces.
    ours = own.ids | {each["InstanceId"] for each in tagged_instances.find(ec2, cluster=own.cluster)}
    for interface in interfaces:
        instance_id = interface.get("Attachment", {}).get("InstanceId")
        groups = {group["GroupId"] for group in interface.get("Groups", [])}
        where = f"{interface['NetworkInterfaceId']} in {interface['SubnetId']}"
        if instance_id and instance_id not in ours:
            yield f"instance {instance_id} in {interface['SubnetId']}"
        elif interface["Status"] == "available":
            yield f"network interface {where}, which nothing uses{_described(interface.get('Description'))}"
        elif not instance_id and groups and not groups & (own.groups | guardduty):
            yield f"network interface {where}{_described(interface.get('Description'))}"


def _by_rule(ec2: Any, own: Belongings) -> Iterator[str]:
    """Security groups whose rules name one of the cluster's, such as those of another cluster that SSH reaches through
    this one's endpoint. EC2 deletes no group that another one of its VPC names (error DependencyViolation)."""
    if not own.groups:
        return

    def groups(name: str) -> list[dict[str, Any]]:
        return list(ec2.describe_security_groups(Filters=[_filter(name, *sorted(own.groups))])["SecurityGroups"])

    vpcs = {each["VpcId"] for each in groups("group-id")} - {*own.vpcs}
    for group in (*groups("ip-permission.group-id"), *groups("egress.ip-permission.group-id")):
        if group["GroupId"] not in own.ids and group["VpcId"] in vpcs:
            yield f"security group {group['GroupId']}{_described(group['GroupName'])}, whose rules name the cluster's"


def _interfaces(ec2: Any, own: Belongings) -> list[dict[str, Any]]:
    """The network interfaces in its VPC, and those with its security groups."""
    found: dict[str, dict[str, Any]] = {}
    for name, values in (("vpc-id", own.vpcs), ("group-id", own.groups)):
        if values:
            pages = ec2.get_paginator("describe_network_interfaces").paginate(Filters=[_filter(name, *sorted(values))])
            found |= {each["NetworkInterfaceId"]: each for page in pages for each in page["NetworkInterfaces"]}
    return list(found.values())


def _in_vpc(ec2: Any, own: Belongings) -> Iterator[str]:
    if not own.vpcs:
        return
    within = [_filter("vpc-id", *own.vpcs)]
    not_yet = {*_guardduty_groups(ec2, own), *_firewall_managers(ec2, own)}
    for subnet in ec2.describe_subnets(Filters=within)["Subnets"]:
        if subnet["SubnetId"] not in own.ids:
            yield f"subnet {subnet['SubnetId']}"
    for group in ec2.describe_security_groups(Filters=within)["SecurityGroups"]:
        if group["GroupName"] != "default" and group["GroupId"] not in own.ids | not_yet:
            yield f"security group {group['GroupId']}{_described(group['GroupName'])}"
    theirs = set(_guardduty_endpoints(ec2, own))
    for endpoint in ec2.describe_vpc_endpoints(Filters=within)["VpcEndpoints"]:
        goes = endpoint["State"].lower() in ("deleting", "deleted")
        if not goes and endpoint["VpcEndpointId"] not in own.ids | theirs:
            yield f"VPC endpoint {endpoint['VpcEndpointId']}{_described(endpoint['ServiceName'])}"


def _described(text: str | None) -> str:
    return f" ({text})" if text else ""


def _filter(name: str, *values: str) -> dict[str, Any]:
    return {"Name": name, "Values": list(values)}


def _firewall_managers(ec2: Any, own: Belongings) -> Iterator[str]:
    """Its groups on the cluster's own nodes. Nobody can delete those before the nodes."""
    for interface in _interfaces(ec2, own):
        if interface.get("Attachment", {}).get("InstanceId") in own.ids:
            groups = interface.get("Groups", [])
            yield from (group["GroupId"] for group in groups if group["GroupName"].startswith(FIREWALL_MANAGER))


def _guardduty_groups(ec2: Any, own: Belongings) -> list[str]:
    if not own.vpcs:
        return []
    found = ec2.describe_security_groups(Filters=[_filter("vpc-id", *own.vpcs), GUARDDUTY])
    return [group["GroupId"] for group in found["SecurityGroups"]]


def _guardduty_endpoints(ec2: Any, own: Belongings) -> list[str]:
    if not own.vpcs:
        return []
    found = ec2.describe_vpc_endpoints(Filters=[_filter("vpc-id", *own.vpcs), GUARDDUTY])["VpcEndpoints"]
    return [each["VpcEndpointId"] for each in found if each["State"].lower() != "deleted"]


def has_guardduty(ec2: Any, own: Belongings) -> bool:
    return bool(_guardduty_endpoints(ec2, own) or _guardduty_groups(ec2, own))


def delete_guardduty(ec2: Any, own: Belongings) -> None:
    """Deletes what GuardDuty made in the VPC. It may make them again as long as an instance runs there. Raises
    CloudError if the endpoint does not go."""
    if endpoints := _guardduty_endpoints(ec2, own):
        ec2.delete_vpc_endpoints(VpcEndpointIds=endpoints)
    deadline = time.monotonic() + ENDPOINT_GONE_S
    while left := _guardduty_endpoints(ec2, own):
        if time.monotonic() > deadline:
            minutes = ENDPOINT_GONE_S / 60
            what = f"GuardDuty's endpoint {' '.join(left)} is still there after {minutes:.0f} minutes"
            raise CloudError(what, "delete it, then run `gpucluster down` again")
        time.sleep(POLL_S)
    for group in _guardduty_groups(ec2, own):
        ec2.delete_security_group(GroupId=group)
