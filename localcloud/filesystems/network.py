"""A file system's place in a VPC: FSx checks its security groups before it creates anything."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from ipaddress import ip_address, ip_network
from typing import Any

from localcloud.filesystems.lustre import refused

LUSTRE_PORT = 988


def check(ec2: Any, subnet_id: str, group_ids: Sequence[str], *, efa: bool) -> Any:
    """moto's subnet. Raises CreateFileSystem's error."""
    subnet = subnet_of(ec2, subnet_id, group_ids)
    groups = [_group(ec2, group_id, subnet.vpc_id) for group_id in group_ids]
    if groups and not any(_admits_lustre(group.ingress_rules) for group in groups):
        raise refused(
            "The file system cannot be created because no security group permits Lustre LNET network traffic "
            f"on port {LUSTRE_PORT}.",
            "InvalidNetworkSettings",
        )
    if efa and not any(_all_to_itself(group) for group in groups):
        raise refused("Insufficient security group permissions to create an EFA-enabled file system")
    return subnet


def subnet_of(ec2: Any, subnet_id: str, group_ids: Sequence[str]) -> Any:
    """moto's subnet, in whose VPC the groups are. Raises CreateFileSystem's error."""
    subnet = next((zones[subnet_id] for zones in ec2.subnets.values() if subnet_id in zones), None)
    if subnet is None:
        raise refused(f"The subnet ID '{subnet_id}' does not exist", "InvalidNetworkSettings")
    for group_id in group_ids:
        _group(ec2, group_id, subnet.vpc_id)
    return subnet


def connect(ec2: Any, subnet: Any, group_ids: Sequence[str], description: str = "Created by Amazon FSx") -> Any:
    """One interface; AWS creates one for each server. It keeps subnet and groups in use until the file system is
    deleted."""
    address = subnet.get_available_subnet_ip(None)
    made = ec2.create_network_interface(subnet, address, group_ids=list(group_ids), description=description)
    made.status = "in-use"
    return made


def disconnect(ec2: Any, interface_id: str) -> None:
    interface = ec2.enis[interface_id]
    interface.subnet.del_subnet_ip(interface.private_ip_address)
    ec2.delete_network_interface(interface_id)


def admits(ec2: Any, server_groups: Sequence[str], client_groups: Sequence[str], client: str, port: int) -> bool:
    """Whether TCP reaches the server's port: out of the client's groups, into the server's.

    If a group is missing, its rules are unknown and nothing is refused.
    """
    ours, theirs = ([ec2.get_security_group_from_id(each) for each in ids] for ids in (client_groups, server_groups))
    if not all(ours) or not all(theirs):
        return True
    into = any(_passes(rule, port, client_groups, client) for group in theirs for rule in group.ingress_rules)
    out = any(_passes(rule, port, server_groups, None) for group in ours for rule in group.egress_rules)
    return into and out


def _passes(rule: Any, port: int, groups: Sequence[str], address: str | None) -> bool:
    """`address`: None stands for any address."""
    if str(rule.ip_protocol) != "-1" and not (
        str(rule.ip_protocol) == "tcp" and int(rule.from_port) <= port <= int(rule.to_port)
    ):
        return False
    if rule.source_group.get("GroupId") in groups:
        return True
    ranges = [each["CidrIp"] for each in [rule.ip_range] if each.get("CidrIp")]
    return any(address is None or ip_address(address) in ip_network(each) for each in ranges)


def _group(ec2: Any, group_id: str, vpc_id: str) -> Any:
    group = ec2.get_security_group_from_id(group_id)
    if group is None or group.vpc_id != vpc_id:
        raise refused(
            f"The security group '{group_id}' does not exist in the file system's VPC", "InvalidNetworkSettings"
        )
    return group


def _admits_lustre(rules: Iterable[Any]) -> bool:
    return any(
        str(rule.ip_protocol) == "-1"
        or (str(rule.ip_protocol) == "tcp" and int(rule.from_port) <= LUSTRE_PORT <= int(rule.to_port))
        for rule in rules
    )


def _all_to_itself(group: Any) -> bool:
    """0.0.0.0/0 is not enough, because EFA's traffic is not IP."""
    return all(
        any(str(rule.ip_protocol) == "-1" and rule.source_group.get("GroupId") == group.id for rule in rules)
        for rules in (group.ingress_rules, group.egress_rules)
    )
