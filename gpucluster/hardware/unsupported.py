"""EC2's instance types that instances.csv does not have, and why: a type that exists is no typing error.

other_types.csv has those without accelerators, whose CPUs are x86-64: the small ones, and those of AWS's price lists
that EC2's catalogue lacks. tools/instance_types.py writes it.
"""

from __future__ import annotations

import csv
import re
from functools import cache
from pathlib import Path

from gpucluster.hardware.instances import INSTANCE_TYPES

_REASONS = (
    (r"(trn|inf)\d[a-z]*", "its accelerators are not GPUs"),
    (
        r"a1|p6e-gb\d+|[a-z]+\d+[a-z]?g[a-z]{0,2}(-flex)?",
        "its CPUs are Arm, but images and environments are for x86-64",
    ),
    (
        r"g6f|gr6f|g4ad|g7e?|g[23]s?|p2|dl\d[a-z]*|vt1|f\d",
        "GpuCluster has no drivers and libraries for its accelerators",
    ),
    (r"mac\d?(-.*)?", "it runs macOS"),
)
"""By the family. EC2's catalogue is not asked whether such a family has the size."""


def not_supported(name: str) -> str:
    """Why AWS's type or family of this name is not supported; "" if it is, or if AWS has none of that name."""
    family = name.partition(".")[0]
    if name in INSTANCE_TYPES:
        return ""
    if why := next((why for pattern, why in _REASONS if re.fullmatch(pattern, family)), ""):
        return why
    known = (gib for other, gib in _others().items() if name in (other, other.partition(".")[0]))
    memory = next(known, None)
    if memory is None:
        return ""
    ours = [each for each in INSTANCE_TYPES if each.partition(".")[0] == family]
    if not memory:
        return "AWS offers it to few accounts or no longer, and its catalogue does not describe it"
    smallest = f"; the smallest of its family that GpuCluster supports is {ours[0]}" if ours else ""
    return f"it has {float(memory):.2g} GiB of memory, less than 4{smallest}"


@cache
def _others() -> dict[str, str]:
    """Type -> GiB of memory; "" if EC2's catalogue does not have it."""
    with Path(__file__).with_name("other_types.csv").open(encoding="utf-8", newline="") as file:
        return {row["type"]: row["memory_gib"] for row in csv.DictReader(file)}
