"""Names of partitions from those of queues, and instance types from those that a head node cannot be."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gpucluster.config import PARAMETER_SERVERS
from gpucluster.hardware.instances import INSTANCE_TYPES

LONGEST = 20
_KINDS = {"t": "t3", "c": "c6i", "r": "r6i", "x": "r6i"}
"""Nitro families with Intel's CPUs, by the first letter of a family of the same kind; m6i for the others."""
_SMALL = ("nano", "micro", "small")
DEFAULT_HEAD = "m6i.2xlarge"


def partition_name(queue: str, resources: Sequence[str], taken: set[str]) -> str:
    """The name of the queue in the form that cluster.yaml allows. With `resources`, the name and the types of a compute
    resource, the first that fits follows it. Adds the name to `taken`."""
    names = [_name(f"{queue}-{each}") for each in resources] or [_name(queue)]
    name = next((each for each in names if len(each) <= LONGEST), re.sub(r"-[0-9]*$", "", names[0][:LONGEST]))
    number, unique = 1, name
    while unique in taken or unique == PARAMETER_SERVERS:
        number += 1
        unique = f"{name[: LONGEST - len(str(number)) - 1].rstrip('-')}x{number}"
    taken.add(unique)
    return unique


def _name(words: str) -> str:
    parts = re.sub(r"[^a-z0-9]+", "-", words.lower())
    return re.sub(r"-(?=[0-9]+$)", "", re.sub(r"^[^a-z]+", "", parts).strip("-")) or "queue"


def is_nitro(instance_type: str) -> bool:
    return INSTANCE_TYPES[instance_type].hypervisor != "xen"


def head_type(asked: str) -> str:
    """The type itself if a head node can be of it, or else one of the same kind and size."""
    if asked in INSTANCE_TYPES and is_nitro(asked):
        return asked
    kind, size = _KINDS.get(asked[:1], "m6i"), asked.partition(".")[2]
    alike = (f"{kind}.{each}" for each in (size, "medium" if size in _SMALL else ""))
    return next((each for each in alike if each in INSTANCE_TYPES and "metal" not in each), DEFAULT_HEAD)
