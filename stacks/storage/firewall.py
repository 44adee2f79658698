"""Rules between two security groups, each its own resource.

Inline rules that name each other's group would form a circle. And a group that is retained when the cluster is deleted
would still name another group, which could then not be deleted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from aws_cdk import aws_ec2 as ec2
from constructs import Construct


class Ports(NamedTuple):
    protocol: str
    """`tcp`, `udp`, or `-1`: everything, with any ports."""
    first: int | None = None
    last: int | None = None

    def __str__(self) -> str:
        if self.protocol == "-1":
            return "All"
        return f"{self.protocol.capitalize()}{self.first}" + (f"To{self.last}" if self.last else "")


ALL = Ports("-1")


def admit(
    scope: Construct, who: str, *, into: ec2.ISecurityGroup, source: ec2.ISecurityGroup, ports: Sequence[Ports]
) -> list[ec2.CfnSecurityGroupIngress]:
    """`who` names both groups, for ids and descriptions: `HeadToLustre`."""
    return [
        ec2.CfnSecurityGroupIngress(
            scope,
            f"{who}{each}In",
            group_id=into.security_group_id,
            source_security_group_id=source.security_group_id,
            ip_protocol=each.protocol,
            from_port=each.first,
            to_port=each.last or each.first,
            description=f"{who} {each}",
        )
        for each in ports
    ]


def let_out(
    scope: Construct, who: str, *, of: ec2.ISecurityGroup, destination: ec2.ISecurityGroup, ports: Sequence[Ports]
) -> list[ec2.CfnSecurityGroupEgress]:
    return [
        ec2.CfnSecurityGroupEgress(
            scope,
            f"{who}{each}Out",
            group_id=of.security_group_id,
            destination_security_group_id=destination.security_group_id,
            ip_protocol=each.protocol,
            from_port=each.first,
            to_port=each.last or each.first,
            description=f"{who} {each}",
        )
        for each in ports
    ]
