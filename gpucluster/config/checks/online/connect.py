"""Checks the EC2 Instance Connect Endpoint, through which SSH reaches the nodes. A VPC can have only one."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Network, collapse_addresses

from gpucluster.config.checks.online.account import Account, Answer
from gpucluster.config.checks.online.network import validator
from gpucluster.config.checks.online.things import CONNECT_ENDPOINT, SUBNET
from gpucluster.config.document import Finding, Path
from gpucluster.config.models import ClusterConfig, Network
from gpucluster.config.validators import Findings

ONE = "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/eice-quotas.html: one for each VPC"
GROUPS = "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/eice-security-groups.html"
SSH_PORT = 22


@validator("vpc-has-no-connect-endpoint", ONE)
def vpc_has_no_connect_endpoint(network: Network, path: Path, config: ClusterConfig, account: Account) -> Findings:
    """Without connect_endpoint_id the VPC has no EC2 Instance Connect Endpoint of others: a VPC can have only one."""
    if not network.vpc_id or network.connect_endpoint_id:
        return
    filters = [{"Name": "vpc-id", "Values": [network.vpc_id]}]
    found = account.ask("ec2", "describe_instance_connect_endpoints", Filters=filters)["InstanceConnectEndpoints"]
    for each in found:
        if each["VpcId"] != network.vpc_id or _cluster(each) == config.name or each.get("State") == "delete-complete":
            continue
        id_, groups = each["InstanceConnectEndpointId"], each.get("SecurityGroupIds") or ["sg-…"]
        yield Finding(
            (*path, "vpc_id"),
            f"{network.vpc_id} already has an Instance Connect Endpoint: {id_}",
            f"to use it, write connect_endpoint_id: {id_} and connect_security_group_id: {groups[0]}",
        )


@validator(
    "connect-endpoint-fits",
    f"{GROUPS}; https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_Ec2InstanceConnectEndpoint.html: "
    "vpcId, state, preserveClientIp, securityGroupIdSet",
)
def connect_endpoint_fits(network: Network, path: Path, config: ClusterConfig, account: Account) -> Findings:
    """connect_endpoint_id is ready, in vpc_id, has connect_security_group_id, and connects with its own address."""
    id_ = network.connect_endpoint_id
    for key, fault, hint in _faults(network, CONNECT_ENDPOINT.look_up(account, id_) or {}):
        yield Finding((*path, key), f"{id_} {fault}", hint)


def _faults(network: Network, endpoint: Answer) -> Iterator[tuple[str, str, str]]:
    """The key, what is wrong with the endpoint, what to do."""
    if endpoint.get("VpcId", network.vpc_id) != network.vpc_id:
        yield "connect_endpoint_id", f"is in {endpoint['VpcId']}, not in {network.vpc_id}", "name that VPC's endpoint"
    if endpoint.get("State", "create-complete") not in ("create-complete", "update-complete", "update-in-progress"):
        yield "connect_endpoint_id", f"is {endpoint['State']}", "wait for it, or create another one"
    if endpoint.get("PreserveClientIp"):
        what = "keeps the addresses of clients (preserveClientIp), from which nodes accept no SSH"
        yield "connect_endpoint_id", what, "create it again with --no-preserve-client-ip"
    groups = endpoint.get("SecurityGroupIds") or [network.connect_security_group_id]
    if network.connect_security_group_id not in groups:
        what = f"has the security group {', '.join(groups)}, not {network.connect_security_group_id}"
        yield "connect_security_group_id", what, f"write connect_security_group_id: {groups[0]}"


@validator("connect-endpoint-reaches-nodes", f"{GROUPS}: outbound rule to the instances")
def connect_endpoint_reaches_nodes(network: Network, path: Path, config: ClusterConfig, account: Account) -> Findings:
    """The security group of connect_endpoint_id lets SSH out to the nodes' subnet."""
    endpoint = CONNECT_ENDPOINT.look_up(account, network.connect_endpoint_id)
    subnet, group_ids = SUBNET.look_up(account, network.subnet_id), (endpoint or {}).get("SecurityGroupIds")
    if not subnet or not group_ids:
        return
    groups = account.ask("ec2", "describe_security_groups", GroupIds=group_ids)["SecurityGroups"]
    rules = [rule for group in groups for rule in group.get("IpPermissionsEgress", []) if _is_ssh(rule)]
    if not any(rule.get("PrefixListIds") for rule in rules) and not _cover(rules, IPv4Network(subnet["CidrBlock"])):
        yield Finding(
            (*path, "connect_endpoint_id"),
            f"{', '.join(group_ids)} of {network.connect_endpoint_id} lets no SSH out to {subnet['CidrBlock']}, "
            f"the addresses of {network.subnet_id}",
            f"aws ec2 authorize-security-group-egress --group-id {group_ids[0]} --protocol tcp --port 22 "
            f"--cidr {subnet['CidrBlock']}",
        )


def _is_ssh(rule: Answer) -> bool:
    if rule.get("IpProtocol") == "-1":
        return True
    return rule.get("IpProtocol") == "tcp" and rule.get("FromPort", 0) <= SSH_PORT <= rule.get("ToPort", 65535)


def _cover(rules: list[Answer], nodes: IPv4Network) -> bool:
    ranges = [IPv4Network(each["CidrIp"]) for rule in rules for each in rule.get("IpRanges", [])]
    return any(nodes.subnet_of(each) for each in collapse_addresses(ranges))


def _cluster(endpoint: Answer) -> str | None:
    """The cluster whose stack made it."""
    tags = {tag["Key"]: tag["Value"] for tag in endpoint.get("Tags", [])}
    return tags.get("gpucluster:cluster")
