"""Head nodes of this cluster: one, or two while CloudFormation replaces the old one with a new one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpucluster_node import ec2, fleet

GENERATION_TAG = "gpucluster:generation"
NOT_TERMINATED = (*ec2.LIVE_STATES, *ec2.ENDING_STATES)


@dataclass(frozen=True)
class Head:
    instance_id: str
    state: str
    """EC2's state: pending, running, stopping, stopped, shutting-down, terminated."""
    cluster: str | None
    role: str | None
    generation: str | None
    """Changes whenever the head node is replaced."""

    def belongs_to(self, cluster: str) -> bool:
        return (self.cluster, self.role) == (cluster, "head")


def find(client: Any, instance_id: str) -> Head:
    """For any instance; the caller checks whether it is a head node."""
    return _head(client.describe_instances(InstanceIds=[instance_id])["Reservations"][0]["Instances"][0])


def others(client: Any, cluster: fleet.Fleet, me: Head) -> list[Head]:
    """The cluster's head nodes of other generations that are not terminated. A head node that another one replaces may
    still run."""
    found = client.describe_instances(**ec2.describe_request(cluster, NOT_TERMINATED, role="head"))
    heads = (_head(each) for reservation in found["Reservations"] for each in reservation["Instances"])
    return [each for each in heads if each.generation != me.generation]


def _head(found: Mapping[str, Any]) -> Head:
    tags = {tag["Key"]: tag["Value"] for tag in found.get("Tags", ())}
    return Head(
        found["InstanceId"],
        found["State"]["Name"],
        tags.get(ec2.CLUSTER_TAG),
        tags.get(ec2.ROLE_TAG),
        tags.get(GENERATION_TAG),
    )


def is_wanted(head: Head, ssm: Any, cluster: fleet.Fleet) -> bool:
    """Whether it is the current head node of the stack, not one that is being replaced, or starts again afterwards."""
    return bool(fleet.parameter(ssm, cluster, "bundle").get("head_generation") == head.generation)
