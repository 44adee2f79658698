"""EC2 instances of clusters, found by the tags that every cluster sets."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

UP = ("pending", "running")
NOT_TERMINATED = (*UP, "shutting-down", "stopping", "stopped")
_SHARED = re.compile(r"([0-9]+):(.+-)\[([0-9]+(?:-[0-9]+)?(?:,[0-9]+(?:-[0-9]+)?)*)\]")


def find(ec2: Any, states: Sequence[str] = (), **tags: str) -> list[dict[str, Any]]:
    """Instances with these tags: `role="head"` means gpucluster:role=head. Without `states`, instances in any state."""
    filters = [{"Name": f"tag:gpucluster:{tag}", "Values": [value]} for tag, value in tags.items()]
    if states:
        filters.append({"Name": "instance-state-name", "Values": list(states)})
    pages = ec2.get_paginator("describe_instances").paginate(Filters=filters)
    return [found for page in pages for reservation in page["Reservations"] for found in reservation["Instances"]]


def tags_of(instance: dict[str, Any]) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in instance.get("Tags", [])}


def node_of(instance: dict[str, Any]) -> str | None:
    """The Slurm node that the instance is; None if it has no name yet. gpucluster_node/names.py, which runs on nodes,
    defines the tag's values."""
    value = tags_of(instance).get("gpucluster:node", "")
    shared = _SHARED.fullmatch(value)
    if not shared:
        return None if ":" in value else value or None
    left = instance.get("AmiLaunchIndex", 0) - int(shared[1])
    for first, _, last in (each.partition("-") for each in shared[3].split(",")):
        count = max(int(last or first) - int(first) + 1, 0)
        if 0 <= left < count:
            return f"{shared[2]}{int(first) + left}"
        left -= count
    return None
