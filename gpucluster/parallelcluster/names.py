"""Names of partitions from those of queues, and instance types from those that a head node cannot be."""

from __future__ import annotations

import re

from gpucluster.config import PARAMETER_SERVERS
from gpucluster.hardware.instances import INSTANCE_TYPES

LONGEST = 20
_KINDS = {"t": "t3", "c": "c6i", "r": "r6i", "x": "r6i"}
"""Nitro families with Intel's CPUs, by the first letter of a family of the same kind; m6i for the others."""
DEFAULT_HEAD = "m6i.2xlarge"


def partition_name(queue: str, resource: str, taken: set[str]) -> str:
    """The name of the queue, or QUEUE-RESOURCE, in the form that cluster.yaml allows. Adds it to `taken`."""
    words = re.sub(r"[^a-z0-9]+", "-", f"{queue}-{resource}".lower() if resource else queue.lower())
    name = re.sub(r"-(?=[0-9]+$)", "", re.sub(r"^[^a-z]+", "", words).strip("-")) or "queue"
    name = re.sub(r"-[0-9]*$", "", name[:LONGEST]) if len(name) > LONGEST else name
    number, unique = 1, name
    while unique in taken or unique == PARAMETER_SERVERS:
        number += 1
        unique = f"{name[: LONGEST - len(str(number)) - 1].rstrip('-')}x{number}"
    taken.add(unique)
    return unique


def is_nitro(instance_type: str) -> bool:
    return INSTANCE_TYPES[instance_type].hypervisor != "xen"


def head_type(asked: str) -> str:
    """The type itself if a head node can be of it, or else one of the same kind and size."""
    if asked in INSTANCE_TYPES and is_nitro(asked):
        return asked
    alike = f"{_KINDS.get(asked[:1], 'm6i')}.{asked.partition('.')[2]}"
    return alike if alike in INSTANCE_TYPES and "metal" not in alike else DEFAULT_HEAD
