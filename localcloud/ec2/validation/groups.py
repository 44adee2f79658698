"""Security groups: names, rules, limits, and deletion of groups in use.

https://docs.aws.amazon.com/vpc/latest/userguide/amazon-vpc-limits.html#vpc-limits-security-groups
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from moto.ec2.models import EC2Backend

from localcloud.ec2.validation.model import invalid
from localcloud.validation.refusal import Refusal

Given = dict[str, Any]
MOST_RULES = 60  # in each direction, of IPv4 and of IPv6
_SOURCES = ("IpRanges", "Ipv6Ranges", "PrefixListIds", "UserIdGroupPairs")
_FAMILIES = (("IpRanges", "CidrIp"), ("Ipv6Ranges", "CidrIpv6"))
_TEXT = re.compile(r"[a-zA-Z0-9 ._\-:/()#,@\[\]+=&;{}!$*]*")
_RULE_TEXT = re.compile(r"[a-zA-Z0-9 ._\-:/()#,@\[\]+=&;{}!$*]*")
_LONGEST = 255
_PROTOCOLS = ("tcp", "udp", "icmp", "icmpv6", "-1", "all")
_HIGHEST_PORT = 65535
_HIGHEST_ICMP = 255


def create(backend: EC2Backend, given: Given) -> None:
    name, text = str(given.get("GroupName") or ""), str(given.get("Description") or "")
    if not text:
        raise Refusal("MissingParameter", "The request must contain the parameter GroupDescription")
    for member, value in (("groupName", name), ("groupDescription", text)):
        if len(value) > _LONGEST or not _TEXT.fullmatch(value):
            raise invalid(
                member, value, f"Character sets beyond ASCII are not supported, nor more than {_LONGEST} characters."
            )
    if name.lower().startswith("sg-"):
        raise invalid("groupName", name, "Group names may not be in the format sg-*.")
    if name == "default":
        raise Refusal("InvalidParameterValue", "Cannot use reserved security group name: default")
    if given.get("VpcId") and any(g.name.lower() == name.lower() for g in backend.groups[given["VpcId"]].values()):
        raise Refusal(
            "InvalidGroup.Duplicate", f"The security group '{name}' already exists for VPC '{given['VpcId']}'"
        )


def delete(backend: EC2Backend, given: Given) -> None:
    group = backend.get_security_group_from_id(str(given.get("GroupId")))
    if group is None:
        return
    if group.name == "default":
        raise Refusal("CannotDelete", f'the specified group: "{group.id}" name: "default" cannot be deleted by a user')
    if any(group.id in _sources(other) for other in _of_vpc(backend, group) if other.id != group.id):
        raise Refusal("DependencyViolation", f"resource {group.id} has a dependent object")


def _of_vpc(backend: EC2Backend, group: Any) -> list[Any]:
    return list(backend.groups[group.vpc_id].values())


def _sources(group: Any) -> Iterator[str]:
    for rule in [*group.ingress_rules, *group.egress_rules]:
        if rule.source_group:
            yield str(rule.source_group.get("GroupId"))


def authorize_ingress(backend: EC2Backend, given: Given) -> None:
    _authorize(backend, given, "ingress_rules")


def authorize_egress(backend: EC2Backend, given: Given) -> None:
    _authorize(backend, given, "egress_rules")


def _authorize(backend: EC2Backend, given: Given, direction: str) -> None:
    named = given.get("GroupId") or given.get("GroupName")
    group = backend.get_security_group_by_name_or_id(str(named)) if named else None
    permissions = given.get("IpPermissions") or [given]
    for permission in permissions:
        _check_ports(permission)
        _check_texts(permission)
        if given.get("IpPermissions") and not any(permission.get(name) for name in _SOURCES):
            raise Refusal("MissingParameter", f"The request must contain one of the parameters {', '.join(_SOURCES)}")
        for source in permission.get("UserIdGroupPairs") or []:
            _check_source(backend, group, source)
    if group is not None:
        _check_number(getattr(group, direction), permissions)


def _check_number(rules: list[Any], permissions: list[Given]) -> None:
    """A rule that names a group or a prefix list counts for IPv4 and for IPv6."""
    for ranges, block in _FAMILIES:
        held = sum(not rule.ip_range or block in rule.ip_range for rule in rules)
        added = sum(
            len(permission.get(name) or [])
            for permission in permissions
            for name in (ranges, "PrefixListIds", "UserIdGroupPairs")
        )
        alone = sum(bool(permission.get(block)) for permission in permissions)  # the request's short form
        if held + added + alone > MOST_RULES:
            raise Refusal(
                "RulesPerSecurityGroupLimitExceeded",
                "The maximum number of rules per security group has been reached.",
            )


def _check_texts(permission: Given) -> None:
    for name in _SOURCES:
        for each in permission.get(name) or []:
            text = str(each.get("Description") or "")
            if len(text) > _LONGEST or not _RULE_TEXT.fullmatch(text):
                raise invalid("description", text, "Invalid rule description.")


def _check_source(backend: EC2Backend, group: Any, source: Given) -> None:
    other = backend.get_security_group_from_id(str(source.get("GroupId"))) if source.get("GroupId") else None
    if group is not None and other is not None and other.vpc_id != group.vpc_id:
        raise Refusal(
            "InvalidGroup.NotFound", f"You have specified two resources that belong to different networks: {other.id}"
        )


def _check_ports(permission: Given) -> None:
    protocol, first, last = permission.get("IpProtocol"), permission.get("FromPort"), permission.get("ToPort")
    if protocol is None:
        return
    named = str(protocol).lower()
    if named not in _PROTOCOLS and not (named.isdigit() and int(named) < 256):
        raise invalid("ipProtocol", protocol, f"Unknown protocol, allowed: {', '.join(_PROTOCOLS[:5])} or a number.")
    if named in ("icmp", "1", "icmpv6", "58"):
        for number in (first, last):
            if number is not None and not -1 <= int(number) <= _HIGHEST_ICMP:
                raise invalid("icmpTypeCode", f"{first}-{last}", "An ICMP type or code is from 0 to 255, or -1.")
    if named in ("icmp", "1") and (first is None or last is None):
        raise invalid("portRange", f"{first}-{last}", "Must specify both the type and the code with ICMP.")
    if named in ("icmp", "1", "icmpv6", "58") and first is not None and int(first) == -1 != int(last or -1):
        raise invalid("icmpTypeCode", f"{first}-{last}", "All types (-1) go with all codes (-1).")
    if named not in ("tcp", "udp", "6", "17"):
        return
    if first is None or last is None:
        raise invalid("portRange", f"{first}-{last}", "Must specify both from and to ports with TCP/UDP.")
    for port in (int(first), int(last)):
        if not 0 <= port <= _HIGHEST_PORT:
            raise invalid("portRange", port, "Must be between 0 and 65535.")
    if int(first) > int(last):
        raise invalid("portRange", f"{first}-{last}", "Invalid TCP/UDP port range.")
