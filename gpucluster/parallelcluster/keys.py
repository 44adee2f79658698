"""ParallelCluster's keys and what becomes of each: comments of the converter, and the page, are made from keys.csv.

A row stands for its key, and for all keys below it that have no row of their own. tests/data/parallelcluster/README.md
names the source of the keys.
"""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple, cast

How = Literal["same", "other", "unneeded", "none"]
"""It is carried over; it has another name or form here; nothing is needed for it; it cannot be had."""
SAID: dict[How, str] = {
    "same": "carried over",
    "other": "under another name",
    "unneeded": "not needed",
    "none": "not carried over",
}
NO_AMI = "an AMI made for ParallelCluster does not boot here: `gpucluster image build` makes one"


class Key(NamedTuple):
    path: str
    """Without the marks of lists: Scheduling.SlurmQueues.Name."""
    how: How
    ours: str
    """The key of cluster.yaml; empty if there is none."""
    words: str
    """The difference, or the reason."""


@cache
def keys() -> dict[str, Key]:
    """By path, in the page's order."""
    with Path(__file__).with_name("keys.csv").open(encoding="utf-8", newline="") as file:
        _, *rows = csv.reader(file)
    return {path: Key(path, cast(How, how), ours, words) for path, how, ours, words in rows}


def row(path: str) -> Key | None:
    """The row of the key itself, or of the nearest section above it that has one."""
    while path:
        if path in keys():
            return keys()[path]
        path = path.rpartition(".")[0]
    return None
