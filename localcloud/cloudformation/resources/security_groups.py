"""AWS::EC2: security groups and their rules, inline and stand-alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from localcloud.cloudformation.resources.ec2 import retag, tag_specifications
from localcloud.cloudformation.resources.registry import Call, Handler, Made, Properties, resource

_ALL_OUTBOUND = {"IpProtocol": "-1", "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}
_DIRECTIONS = {"SecurityGroupIngress": "ingress", "SecurityGroupEgress": "egress"}


def permission(rule: Mapping[str, Any]) -> dict[str, Any]:
    """A CloudFormation rule as an IpPermission of EC2."""
    result: dict[str, Any] = {"IpProtocol": str(rule["IpProtocol"])}
    if str(rule["IpProtocol"]) != "-1":
        result |= {key: int(rule[key]) for key in ("FromPort", "ToPort") if key in rule}
    text = {"Description": rule["Description"]} if rule.get("Description") else {}
    group = rule.get("SourceSecurityGroupId") or rule.get("DestinationSecurityGroupId")
    prefix_list = rule.get("SourcePrefixListId") or rule.get("DestinationPrefixListId")
    if rule.get("CidrIp"):
        result["IpRanges"] = [{"CidrIp": rule["CidrIp"], **text}]
    elif rule.get("CidrIpv6"):
        result["Ipv6Ranges"] = [{"CidrIpv6": rule["CidrIpv6"], **text}]
    elif group:
        result["UserIdGroupPairs"] = [{"GroupId": group, **text}]
    elif prefix_list:
        result["PrefixListIds"] = [{"PrefixListId": prefix_list, **text}]
    return result


def _authorize(call: Call, direction: str, group_id: str, rules: Iterable[Mapping[str, Any]]) -> list[str]:
    ids: list[str] = []
    for rule in rules:
        made = call.api(
            "ec2", f"authorize_security_group_{direction}", GroupId=group_id, IpPermissions=[permission(rule)]
        )
        ids += [item["SecurityGroupRuleId"] for item in made.get("SecurityGroupRules", [])]
    return ids


def _revoke(call: Call, direction: str, group_id: str, permissions: Iterable[Mapping[str, Any]]) -> None:
    for item in permissions:
        call.api("ec2", f"revoke_security_group_{direction}", GroupId=group_id, IpPermissions=[item])


@resource(
    "AWS::EC2::SecurityGroup",
    updatable="SecurityGroupIngress SecurityGroupEgress Tags",
    delete="ec2 delete_security_group GroupId",
)
class SecurityGroup(Handler):
    def create(self, call: Call, properties: Properties) -> Made:
        group_id = call.api(
            "ec2",
            "create_security_group",
            GroupName=properties.get("GroupName") or call.name(255),
            Description=properties.get("GroupDescription"),
            VpcId=properties.get("VpcId"),
            TagSpecifications=tag_specifications(call, properties, "security-group"),
        )["GroupId"]
        call.announce(group_id)
        if properties.get("SecurityGroupEgress"):
            _revoke(call, "egress", group_id, [_ALL_OUTBOUND])
        for name, direction in _DIRECTIONS.items():
            _authorize(call, direction, group_id, properties.get(name) or [])
        return self._made(group_id, properties)

    def update(self, call: Call, physical_id: str, old: Properties, new: Properties) -> Made:
        for name, direction in _DIRECTIONS.items():
            before, after = self._rules(old, name), self._rules(new, name)
            _revoke(call, direction, physical_id, [permission(rule) for rule in before if rule not in after])
            _authorize(call, direction, physical_id, [rule for rule in after if rule not in before])
        retag(call, physical_id, old, new)
        return self._made(physical_id, new)

    def _rules(self, properties: Properties, name: str) -> list[Mapping[str, Any]]:
        rules = properties.get(name) or []
        if not rules and name == "SecurityGroupEgress":
            return [{"IpProtocol": "-1", "CidrIp": "0.0.0.0/0"}]  # EC2's default for a group without egress rules
        return list(rules)

    def _made(self, group_id: str, properties: Properties) -> Made:
        attributes = {"GroupId": group_id, "Id": group_id, "VpcId": properties.get("VpcId", "")}
        return Made(group_id, attributes)


class _Rule(Handler):
    direction = ""

    def create(self, call: Call, properties: Properties) -> Made:
        ids = _authorize(call, self.direction, properties["GroupId"], [properties])
        return Made(ids[0], {"Id": ids[0]})

    def update(self, call: Call, physical_id: str, old: Properties, new: Properties) -> Made:
        self.delete(call, physical_id, old)
        return self.create(call, new)

    def delete(self, call: Call, physical_id: str, properties: Properties) -> None:
        method = f"revoke_security_group_{self.direction}"
        call.api("ec2", method, GroupId=properties["GroupId"], SecurityGroupRuleIds=[physical_id])


@resource("AWS::EC2::SecurityGroupIngress", updatable="Description")
class SecurityGroupIngress(_Rule):
    direction = "ingress"


@resource("AWS::EC2::SecurityGroupEgress", updatable="Description")
class SecurityGroupEgress(_Rule):
    direction = "egress"

    def create(self, call: Call, properties: Properties) -> Made:
        """Like CloudFormation, removes the rule that EC2 gives each new group, even if a template states it."""
        of_group = [{"Name": "group-id", "Values": [properties["GroupId"]]}]
        rules = call.api("ec2", "describe_security_group_rules", Filters=of_group)["SecurityGroupRules"]
        for rule in rules:
            if (rule["IsEgress"], rule["IpProtocol"], rule.get("CidrIpv4")) == (True, "-1", "0.0.0.0/0"):
                which = {"GroupId": properties["GroupId"], "SecurityGroupRuleIds": [rule["SecurityGroupRuleId"]]}
                call.if_there("ec2", "revoke_security_group_egress", **which)  # another rule may be removing it too
        return super().create(call, properties)
