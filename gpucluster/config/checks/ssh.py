"""Rules about `ssh_from`: the networks that reach the head node's port 22 through an internet-facing load balancer."""

from __future__ import annotations

from ipaddress import IPv4Network, collapse_addresses

from gpucluster.config.document import Finding, Path
from gpucluster.config.models import ClusterConfig, Network
from gpucluster.config.validators import Findings, Validators

validator = Validators("SSH from outside")

RULES_PER_GROUP = 60

QUOTAS = "https://docs.aws.amazon.com/vpc/latest/userguide/amazon-vpc-limits.html"
BALANCER = "https://docs.aws.amazon.com/elasticloadbalancing/latest/network/create-network-load-balancer.html"
INTERNET_FACING = f"{BALANCER}: internet-facing"


@validator(
    "ssh-from-count", f"{QUOTAS}: 60 inbound rules for each security group; error RulesPerSecurityGroupLimitExceeded"
)
def ssh_from_count(network: Network, path: Path, config: ClusterConfig) -> Findings:
    """ssh_from has at most 60 networks: one security group holds them all."""
    if len(network.ssh_from) > RULES_PER_GROUP:
        yield Finding(
            (*path, "ssh_from"),
            f"has {len(network.ssh_from)} networks; a security group holds {RULES_PER_GROUP} rules",
            "merge adjacent networks: 198.51.100.0/25 and 198.51.100.128/25 are 198.51.100.0/24",
        )


@validator("ssh-from-unique", "error InvalidPermission.Duplicate of EC2 AuthorizeSecurityGroupIngress")
def ssh_from_unique(network: Network, path: Path, config: ClusterConfig) -> Findings:
    """No network is listed twice in ssh_from."""
    for index, source in enumerate(network.ssh_from):
        if source in network.ssh_from[:index]:
            yield Finding((*path, "ssh_from", index), f"{source} is already in the list")


@validator(
    "ssh-from-not-all-together",
    "https://docs.aws.amazon.com/securityhub/latest/userguide/ec2-controls.html: EC2.13: no SSH from 0.0.0.0/0",
)
def ssh_from_not_all_together(network: Network, path: Path, config: ClusterConfig) -> Findings:
    """The networks of ssh_from are not the whole internet together."""
    joined = list(collapse_addresses(map(IPv4Network, network.ssh_from)))
    if joined and sum(each.num_addresses for each in joined) >= 2**31:
        yield Finding(
            (*path, "ssh_from"),
            "opens SSH to half of the internet or more",
            "name your own networks, or remove it: `gpucluster ssh` does not need it",
        )


@validator("ssh-from-needs-internet", f"{INTERNET_FACING}: error InvalidSubnet: the VPC has no internet gateway")
def ssh_from_needs_internet(network: Network, path: Path, config: ClusterConfig) -> Findings:
    """ssh_from is not combined with internet: none: the load balancer needs an internet gateway."""
    if network.ssh_from and network.internet == "none":
        yield Finding(
            (*path, "ssh_from"),
            "needs an internet gateway, but internet: none creates none",
            "remove it: `gpucluster ssh` uses AWS's Instance Connect Endpoint",
        )


@validator("ssh-from-needs-new-vpc", f"{INTERNET_FACING}: its subnets are public; error InvalidSubnet")
def ssh_from_needs_new_vpc(network: Network, path: Path, config: ClusterConfig) -> Findings:
    """ssh_from needs a new VPC: the public subnet of an existing VPC is not known."""
    if network.ssh_from and network.vpc_id:
        yield Finding(
            (*path, "ssh_from"),
            "needs a public subnet, but of an existing VPC only the nodes' private subnet is known",
            "remove it, and use `gpucluster ssh` or your own load balancer",
        )
