"""The clusters of an account in one region: stacks with GpuCluster's tag, and their running instances."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gpucluster.cluster import tagged_instances

TAG = "gpucluster:cluster"


@dataclass(frozen=True)
class Existing:
    name: str
    region: str
    stack: str
    """CloudFormation's status: CREATE_COMPLETE …"""
    head: str
    """EC2's state of the head node: running, stopped …; empty if the stack has no head node."""
    nodes: int
    """Compute nodes that run or boot."""
    created: str
    """UTC, ISO 8601."""


def clusters(cloudformation: Any, ec2: Any, region: str) -> list[Existing]:
    """All clusters by name. Takes boto3 clients of that region."""
    nodes = Counter(name for name, _ in _instances(ec2, "compute", tagged_instances.UP))
    heads = dict(_instances(ec2, "head", ()))
    return sorted(
        (
            Existing(
                name=stack["StackName"],
                region=region,
                stack=stack["StackStatus"],
                head=heads.get(stack["StackName"], ""),
                nodes=nodes[stack["StackName"]],
                created=stack["CreationTime"].strftime("%Y-%m-%dT%H:%M:%SZ"),
            )
            for stack in _stacks(cloudformation)
        ),
        key=lambda each: each.name,
    )


def _stacks(cloudformation: Any) -> Iterator[dict[str, Any]]:
    """An image that is being built has a separate stack, with the tag of the cluster that it is for."""
    for page in cloudformation.get_paginator("describe_stacks").paginate():
        for stack in page["Stacks"]:
            tags = {tag["Key"]: tag["Value"] for tag in stack.get("Tags", [])}
            if tags.get(TAG) == stack["StackName"]:
                yield stack


def _instances(ec2: Any, role: str, states: Sequence[str]) -> Iterator[tuple[str, str]]:
    """(cluster, state) of each instance. A running head node comes after the one that it replaced."""
    found = tagged_instances.find(ec2, states, role=role)
    for instance in sorted(found, key=lambda each: (each["State"]["Name"] != "terminated", each["LaunchTime"])):
        yield tagged_instances.tags_of(instance).get(TAG, ""), instance["State"]["Name"]
