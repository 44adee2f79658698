"""Head nodes of this cluster: one, or two while CloudFormation replaces the old one with a new one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpucluster_node import ec2, fleet

GENERATION_TAG = "gpucluster:generation"


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
    found = client.describe_instances(InstanceIds=[instance_id])["Reservations"][0]["Instances"][0]
    tags = {tag["Key"]: tag["Value"] for tag in found.get("Tags", ())}
    return Head(
        instance_id,
        found["State"]["Name"],
        tags.get(ec2.CLUSTER_TAG),
        tags.get(ec2.ROLE_TAG),
        tags.get(GENERATION_TAG),
    )


def is_wanted(head: Head, ssm: Any, cluster: fleet.Fleet) -> bool:
    """Whether it is the current head node of the stack, not one that is being replaced, or starts again afterwards."""
    return bool(fleet.parameter(ssm, cluster, "bundle").get("head_generation") == head.generation)
