"""Whether a network interface's security groups let the nodes in. Only what exists before the cluster is known: the
subnet's addresses, the groups that cluster.yaml adds to the nodes, and the groups of a cluster that is deployed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Network

from gpucluster.config.checks.online.account import Account, Answer, deployed
from gpucluster.config.checks.online.things import INTERFACE, SUBNET
from gpucluster.config.models import ClusterConfig

OURS = {"head_node": "GpuCluster head node", "partitions": "GpuCluster compute nodes"}
"""The descriptions of the nodes' own groups: stacks/network.py."""


@dataclass(frozen=True)
class Closed:
    group_id: str
    who: str
    command: str


def not_admitted(account: Account, config: ClusterConfig, interface_id: str, port: int) -> Closed | None:
    """The first nodes that the interface does not admit. None if it admits all, or if its groups are not known."""
    interface, subnet = INTERFACE.look_up(account, interface_id), SUBNET.look_up(account, config.network.subnet_id)
    ids = [each["GroupId"] for each in (interface or {}).get("Groups", [])]
    if not ids or not subnet:
        return None
    groups = account.ask("ec2", "describe_security_groups", GroupIds=ids)["SecurityGroups"]
    rules = [rule for group in groups for rule in group.get("IpPermissions", []) if _covers(rule, port)]
    if any(rule.get("PrefixListIds") for rule in rules):  # their entries may be those of the subnet
        return None
    cidr = IPv4Network(subnet["CidrBlock"])
    if any(cidr.subnet_of(IPv4Network(each["CidrIp"])) for rule in rules for each in rule.get("IpRanges", [])):
        return None
    admitted = {each["GroupId"] for rule in rules for each in rule.get("UserIdGroupPairs", []) if "GroupId" in each}
    command = f"aws ec2 authorize-security-group-ingress --group-id {ids[0]} --protocol tcp --port {port} --cidr {cidr}"
    for who, theirs in _nodes(account, config):
        if not admitted & theirs:
            return Closed(ids[0], who, command)
    return None


def _covers(rule: Answer, port: int) -> bool:
    if rule["IpProtocol"] == "-1":
        return True
    return rule["IpProtocol"] == "tcp" and port in range(rule["FromPort"], rule["ToPort"] + 1)


def _nodes(account: Account, config: ClusterConfig) -> Iterator[tuple[str, set[str]]]:
    """The sections of cluster.yaml, each with the groups of its nodes."""
    ours = _ours(account, config)
    yield "head_node", {*getattr(config.head_node, "security_groups", ()), *ours["head_node"]}
    others: list[tuple[str, object]] = [(f"partitions[{each.name}]", each) for each in config.partitions]
    if config.parameter_servers:
        others.append(("parameter_servers", config.parameter_servers))
    for where, nodes in others:
        yield where, {*getattr(nodes, "security_groups", ()), *ours["partitions"]}


def _ours(account: Account, config: ClusterConfig) -> dict[str, set[str]]:
    if not deployed(account, config):
        return {key: set() for key in OURS}
    tags = [{"Name": "tag:gpucluster:cluster", "Values": [config.name]}]
    found = account.ask("ec2", "describe_security_groups", Filters=tags)["SecurityGroups"]
    return {key: {each["GroupId"] for each in found if each["Description"] == text} for key, text in OURS.items()}
