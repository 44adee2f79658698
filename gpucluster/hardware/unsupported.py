"""EC2's instance types that the table of instances.py does not have, and why: a type that exists is no typing error.

other_types.csv has the families without accelerators, whose CPUs are x86-64, and their sizes. Sources: EC2's catalogue
as moto 5.2.5 ships it, Karpenter's price list of 2026-07-20, and the files of AWS's pricing page that prices.py names.
"""

from __future__ import annotations

import csv
import re
from functools import cache
from pathlib import Path

from gpucluster.hardware.instances import INSTANCE_TYPES

TABLE = "gpucluster/hardware/instances.py"

_REASONS = (
    (r"(trn|inf)\d[a-z]*", "its accelerators are not GPUs"),
    (
        r"a1|p6e-gb\d+|[a-z]+\d+[a-z]?g[a-z]{0,2}(-flex)?",
        "its CPUs are Arm, but images and environments are for x86-64",
    ),
    (r"g6f|gr6f|g4ad|g7e?|g[23]s?|p2|dl\d[a-z]*|vt1|f\d", f"its GPUs or interfaces are not in the table of {TABLE}"),
    (r"mac\d?(-.*)?", "it runs macOS"),
)
"""By the family. EC2's catalogue is not asked whether such a family has the size."""


def not_supported(name: str) -> str:
    """Why AWS's type or family of this name is not supported; "" if it is, or if AWS has none of that name."""
    family, dot, size = name.partition(".")
    if name in INSTANCE_TYPES:
        return ""
    if why := next((why for pattern, why in _REASONS if re.fullmatch(pattern, family)), ""):
        return why
    if family not in _families() or (dot and size not in _families()[family]):
        return ""
    ours = [each for each in INSTANCE_TYPES if each.partition(".")[0] == family]
    if ours:
        return f"it has less than 4 GiB of memory; the smallest of its family that GpuCluster supports is {ours[0]}"
    return f"its family is not in the table of {TABLE}; {_instead(name)}"


def _instead(name: str) -> str:
    """A type of the same kind (c, m, r …) and size that is in the table, the newest first there is."""
    kind, size = re.match(r"[a-z]*", name), name.partition(".")[2]
    alike = [each for each in INSTANCE_TYPES if kind and re.fullmatch(rf"{kind[0]}\d[a-z]*\.{re.escape(size)}", each)]
    newest = max(alike, key=lambda each: re.findall(r"\d+", each)[0], default="")
    return f"of that size it has {newest}" if newest else "`gpucluster types` lists what it has"


@cache
def _families() -> dict[str, tuple[str, ...]]:
    """The sizes by family."""
    with Path(__file__).with_name("other_types.csv").open(encoding="utf-8", newline="") as file:
        _, *rows = csv.reader(file)
    return {family: tuple(sizes.split()) for families, sizes in rows for family in families.split()}
