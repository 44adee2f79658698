"""EC2 instances of clusters, found by the tags that every cluster sets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

UP = ("pending", "running")
NOT_TERMINATED = (*UP, "shutting-down", "stopping", "stopped")


def find(ec2: Any, states: Sequence[str] = (), **tags: str) -> list[dict[str, Any]]:
    """Instances with these tags: `role="head"` means gpucluster:role=head. Without `states`, instances in any state."""
    filters = [{"Name": f"tag:gpucluster:{tag}", "Values": [value]} for tag, value in tags.items()]
    if states:
        filters.append({"Name": "instance-state-name", "Values": list(states)})
    pages = ec2.get_paginator("describe_instances").paginate(Filters=filters)
    return [found for page in pages for reservation in page["Reservations"] for found in reservation["Instances"]]


def tags_of(instance: dict[str, Any]) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in instance.get("Tags", [])}
