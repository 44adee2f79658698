from __future__ import annotations

from typing import Any

from validator_cases.case import cluster

from online_cases.case import Answers, Online, deployed
from online_cases.network import THERE, subnet

NEW = cluster()
OPEN = cluster(network={"ssh_from": ["198.51.100.0/24"]})
ARN = "arn:aws:ec2:us-east-1:123456789012:"
# fmt: off
PUBLIC_ONLY = [
    "1.0.0.0/8", "2.0.0.0/7", "4.0.0.0/6", "8.0.0.0/7", "11.0.0.0/8", "12.0.0.0/6", "16.0.0.0/4", "32.0.0.0/3",
    "64.0.0.0/3", "96.0.0.0/4", "112.0.0.0/5", "120.0.0.0/6", "124.0.0.0/7", "126.0.0.0/8", "128.0.0.0/3",
    "160.0.0.0/5", "168.0.0.0/8", "169.0.0.0/9", "169.128.0.0/10", "169.192.0.0/11", "169.224.0.0/12",
    "169.240.0.0/13", "169.248.0.0/14", "169.252.0.0/15", "169.255.0.0/16", "170.0.0.0/7", "172.0.0.0/12",
    "172.32.0.0/11", "172.64.0.0/10", "172.128.0.0/9", "173.0.0.0/8", "174.0.0.0/7", "176.0.0.0/4", "192.0.0.0/9",
    "192.128.0.0/11", "192.160.0.0/13", "192.169.0.0/16", "192.170.0.0/15", "192.172.0.0/14", "192.176.0.0/12",
    "192.192.0.0/10", "193.0.0.0/8", "194.0.0.0/7", "196.0.0.0/6", "200.0.0.0/5", "208.0.0.0/4"
]
# fmt: on
"""All of IPv4 without the private, link-local, loopback and multicast addresses."""


def route(cidr: str, **target: str) -> dict[str, str]:
    return {"DestinationCidrBlock": cidr, "State": "active", **target}


def table(*found: dict[str, str], **more: Any) -> Answers:
    """`more`: other answers. A NAT gateway is available unless these say otherwise."""
    local = route("10.0.0.0/16", GatewayId="local")
    lists = {"DestinationPrefixListId": "pl-63a5400a", "State": "active", "GatewayId": "vpce-1"}
    whole = {
        "VpcId": "vpc-11111111",
        "Associations": [{"SubnetId": "subnet-11111111"}],
        "Routes": [local, lists, *found],
    }
    return {
        **subnet(),
        "ec2 describe_route_tables": {"RouteTables": [whole]},
        **gateways("available"),
        **entries(),
        **more,
    }


def gateways(state: str) -> Answers:
    return {"ec2 describe_nat_gateways": {"NatGateways": [{"NatGatewayId": "nat-1", "State": state}]}}


def entries(*cidrs: str) -> Answers:
    """Without any it is the list of S3's addresses in us-east-1, shortened."""
    found = [{"Cidr": cidr} for cidr in cidrs or ("52.216.0.0/15", "3.5.0.0/19")]
    return {"ec2 get_managed_prefix_list_entries": {"Entries": found}}


def by_list(*cidrs: str, **target: str) -> Answers:
    return table({"DestinationPrefixListId": "pl-1", "State": "active", **target}, **entries(*cidrs))


def blocked(mode: str, *excluded: str, state: str = "create-complete") -> Answers:
    """As in EC2's reference of DescribeVpcBlockPublicAccessOptions and -Exclusions."""
    found = [
        {"ResourceArn": ARN + each, "State": state, "InternetGatewayExclusionMode": "allow-egress"} for each in excluded
    ]
    return {
        "ec2 describe_vpc_block_public_access_options": {
            "VpcBlockPublicAccessOptions": {"InternetGatewayBlockMode": mode, "State": "update-complete"}
        },
        "ec2 describe_vpc_block_public_access_exclusions": {"VpcBlockPublicAccessExclusions": found},
    }


NAT = {"NatGatewayId": "nat-1"}
HALVES = "0.0.0.0/1", "128.0.0.0/1"
BLOCKED = table(route("0.0.0.0/0", **NAT), **blocked("block-bidirectional"))

CASES: dict[str, Online | list[Online]] = {
    "subnet-leads-out": [
        *(
            Online(
                THERE,
                key="network.subnet_id",
                says="subnet-11111111 has no route to the internet",
                fails=fails,
                passes=passes,
            )
            for fails, passes in (
                (table(), table(route("0.0.0.0/0", **NAT))),
                (table(route(HALVES[0], **NAT)), table(*(route(half, **NAT) for half in HALVES))),
                (by_list("10.0.0.0/8", GatewayId="vpce-2"), by_list("0.0.0.0/0", GatewayId="vpce-2")),
                (by_list(*HALVES[:1], TransitGatewayId="tgw-1"), by_list(*HALVES, TransitGatewayId="tgw-1")),
                (
                    table(*(route(each, **NAT) for each in PUBLIC_ONLY[1:])),
                    table(*(route(each, **NAT) for each in PUBLIC_ONLY)),
                ),
            )
        ),
        Online(
            THERE,
            key="network.subnet_id",
            says="subnet-11111111 is public, it leads to igw-1: nodes have no public address",
            fails=table(route("0.0.0.0/0", GatewayId="igw-1")),
            passes=table(route("0.0.0.0/0", TransitGatewayId="tgw-1")),
        ),
        Online(
            THERE,
            key="network.subnet_id",
            says="subnet-11111111 is public, it leads to igw-1: nodes have no public address",
            fails=table(*(route(each, GatewayId="igw-1") for each in PUBLIC_ONLY)),
            passes=table(route("0.0.0.0/0", GatewayId="vgw-1")),
        ),
        Online(
            THERE,
            key="network.subnet_id",
            says="subnet-11111111 is public, it leads to igw-1: nodes have no public address",
            fails=table(*(route(half, GatewayId="igw-1") for half in HALVES)),
            passes=table(route("0.0.0.0/0", NetworkInterfaceId="eni-1", InstanceId="i-1")),
        ),
        *(
            Online(
                THERE,
                key="network.subnet_id",
                says=f"subnet-11111111 has no route to the internet: {gone} is gone or does not work",
                fails=fails,
                passes=table(route("0.0.0.0/0", **NAT), route("10.9.0.0/16", State="blackhole", GatewayId="vgw-1")),
            )
            for gone, fails in (
                ("nat-1", table(route("0.0.0.0/0", State="blackhole", **NAT))),
                ("i-1", table(route("0.0.0.0/0", State="blackhole", NetworkInterfaceId="eni-1", InstanceId="i-1"))),
                ("nat-1", table(route("0.0.0.0/0", **NAT), **gateways("deleted"))),
                ("nat-1", table(route("0.0.0.0/0", **NAT), **gateways("failed"))),
                (
                    "tgw-1",
                    table(route(HALVES[0], **NAT), route(HALVES[1], State="blackhole", TransitGatewayId="tgw-1")),
                ),
            )
        ),
        Online(
            THERE,
            key="network.subnet_id",
            says="subnet-11111111 has no route to the internet: a VPC peering connection, pcx-1, does not lead there",
            fails=table(route("0.0.0.0/0", VpcPeeringConnectionId="pcx-1")),
            passes=table(route("0.0.0.0/0", **NAT), route("10.9.0.0/16", VpcPeeringConnectionId="pcx-1")),
        ),
    ],
    "vpc-access-not-blocked": [
        Online(
            NEW,
            key="network.internet",
            says="the account blocks all traffic between VPCs and the internet (VPC Block Public Access: "
            "block-bidirectional): no node could download anything",
            fails=blocked("block-bidirectional"),
            passes=passes,
        )
        for passes in (blocked("off"), blocked("block-ingress"), {**blocked("block-bidirectional"), **deployed("My")})
    ]
    + [
        Online(
            THERE,
            key="network.internet",
            says="the account blocks all traffic between VPCs and the internet (VPC Block Public Access: "
            "block-bidirectional): no node could download anything",
            fails={**BLOCKED, **blocked("block-bidirectional", *excluded, state=state)},
            passes=passes,
        )
        for excluded, state, passes in (
            ((), "", {**BLOCKED, **blocked("block-bidirectional", "vpc/vpc-11111111")}),
            (
                ("vpc/vpc-22222222",),
                "create-complete",
                table(route("0.0.0.0/0", TransitGatewayId="tgw-1"), **blocked("block-bidirectional")),
            ),
            (("vpc/vpc-11111111",), "delete-complete", {**BLOCKED, **blocked("off")}),
        )
    ],
    "ssh-not-blocked": Online(
        OPEN,
        key="network.ssh_from",
        says="the account blocks connections from the internet (VPC Block Public Access: block-ingress): "
        "nobody reaches the load balancer",
        fails=blocked("block-ingress"),
        passes=blocked("off"),
    ),
}
