"""Names of partitions from those of queues, and instance types from those that a head node cannot be."""

from __future__ import annotations

import re

from gpucluster.config import PARAMETER_SERVERS
from gpucluster.hardware.instances import INSTANCE_TYPES

LONGEST = 20
_NITRO = {
    **{
        "t2": "t3",
        "t4g": "t3",
        "a1": "m6i",
        "m3": "m6i",
        "m4": "m6i",
        "c3": "c6i",
        "c4": "c6i",
        "r3": "r6i",
        "r4": "r6i",
    },
    **{
        "x1": "x2idn",
        "x1e": "x2iedn",
        "i2": "i3en",
        "i3": "i3en",
        "d2": "d3",
        "p2": "g4dn",
        "p3": "g4dn",
        "g3": "g4dn",
    },
}
"""Families on Xen, and the Nitro family of their kind:
https://docs.aws.amazon.com/ec2/latest/instancetypes/ec2-nitro-instances.html."""
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
    return instance_type.partition(".")[0] not in _NITRO


def head_type(asked: str) -> str:
    """The type itself if a head node can be of it, or else one of the same kind and size."""
    if asked in INSTANCE_TYPES and is_nitro(asked):
        return asked
    family, _, size = asked.partition(".")
    intel = re.sub(r"(?<=\d)g[dn]*$", "i", family)
    candidates = [f"{_NITRO.get(family, intel)}.{size}", f"{intel[:1]}6i.{size}", f"m6i.{size}"]
    alike = (each for each in candidates if each in INSTANCE_TYPES and is_nitro(each) and size != "metal")
    return next(alike, DEFAULT_HEAD)
