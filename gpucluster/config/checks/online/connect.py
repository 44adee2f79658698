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
GONE = ("delete-complete", "create-failed")
"""States of EC2's model, Ec2InstanceConnectEndpointState, in which it is no endpoint of the VPC."""


def of_others(config: ClusterConfig, account: Account) -> Answer | None:
    """The endpoint that is used because the VPC already has one; None if the file names one, or the stack makes it."""
    network = config.network
    if not network.vpc_id or network.connect_endpoint_id:
        return None
    filters = [{"Name": "vpc-id", "Values": [network.vpc_id]}]
    found = account.ask("ec2", "describe_instance_connect_endpoints", Filters=filters)["InstanceConnectEndpoints"]
    theirs = (each for each in found if each["VpcId"] == network.vpc_id and _cluster(each) != config.name)
    return next((each for each in theirs if each.get("State") not in GONE), None)


def _used(config: ClusterConfig, account: Account) -> tuple[Answer, Network, bool]:
    """The endpoint, the network as if the file named it, and whether it does."""
    network = config.network
    if network.connect_endpoint_id:
        return CONNECT_ENDPOINT.look_up(account, network.connect_endpoint_id) or {}, network, True
    found = of_others(config, account)
    if not found:
        return {}, network, False
    groups = found.get("SecurityGroupIds") or [None]
    named = {"connect_endpoint_id": found["InstanceConnectEndpointId"], "connect_security_group_id": groups[0]}
    return found, network.model_copy(update=named), False


@validator(
    "connect-endpoint-of-another", f"{ONE}; error DependencyViolation of EC2 DeleteSecurityGroup", level="warning"
)
def connect_endpoint_of_another(network: Network, path: Path, config: ClusterConfig, account: Account) -> Findings:
    """The EC2 Instance Connect Endpoint of vpc_id is of no other cluster: with that cluster it goes."""
    endpoint, used, named = _used(config, account)
    owner = _cluster(endpoint)
    if owner and owner != config.name:
        message = f"{used.connect_endpoint_id}, through which SSH comes, belongs to the cluster {owner}"
        hint = f"delete {owner} last, or create an endpoint that belongs to no cluster"
        yield Finding((*path, "connect_endpoint_id" if named else "vpc_id"), message, hint)


@validator(
    "connect-endpoint-fits",
    f"{GROUPS}; https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_Ec2InstanceConnectEndpoint.html: "
    "vpcId, state, preserveClientIp, securityGroupIdSet",
)
def connect_endpoint_fits(network: Network, path: Path, config: ClusterConfig, account: Account) -> Findings:
    """The endpoint that is used, connect_endpoint_id or the one that vpc_id has, is ready, in vpc_id, has
    connect_security_group_id, and connects with its own address."""
    endpoint, used, named = _used(config, account)
    for key, fault, hint in _faults(used, endpoint):
        yield Finding((*path, key if named else "vpc_id"), f"{used.connect_endpoint_id} {fault}", hint)


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
    """The security group of the endpoint that is used lets SSH out to the nodes' subnet."""
    endpoint, used, named = _used(config, account)
    subnet, group_ids = SUBNET.look_up(account, network.subnet_id), endpoint.get("SecurityGroupIds")
    if not subnet or not group_ids:
        return
    groups = account.ask("ec2", "describe_security_groups", GroupIds=group_ids)["SecurityGroups"]
    rules = [rule for group in groups for rule in group.get("IpPermissionsEgress", []) if _is_ssh(rule)]
    if not any(rule.get("PrefixListIds") for rule in rules) and not _cover(rules, IPv4Network(subnet["CidrBlock"])):
        yield Finding(
            (*path, "connect_endpoint_id" if named else "vpc_id"),
            f"{', '.join(group_ids)} of {used.connect_endpoint_id} lets no SSH out to {subnet['CidrBlock']}, "
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
