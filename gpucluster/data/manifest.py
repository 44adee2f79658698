"""manifest.json, beside the shards: their content and checksums. If it exists, all shards exist."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from gpucluster.data.locations import Location
from gpucluster.data.packing import Shard
from gpucluster.data.plan import VERSION, Plan
from gpucluster.data.records import FORMATS
from gpucluster.errors import DataError

NAME = "manifest.json"
HINT = "delete that file, and pack the data again with `gpucluster data shard`"


@dataclass(frozen=True)
class Manifest:
    format: str
    source: str
    samples: int
    remainder: int
    left_out: tuple[str, ...]
    shards: tuple[Shard, ...]
    plan: str
    """The id of the plan that made them."""

    @property
    def bytes(self) -> int:
        return sum(shard.bytes for shard in self.shards)


def text(plan: Plan, shards: list[Shard]) -> str:
    """One shard per line, so that people can compare two manifests."""
    head = {
        "version": VERSION,
        "format": plan.format,
        "seed": plan.seed,
        "source": plan.source,
        "samples": plan.samples,
        "remainder": plan.remainder,
        "left_out": plan.left_out,
        "classes": plan.classes,
        **({"resize": plan.resize} if plan.resize else {}),
        "plan": plan.id,
    }
    lines = ",\n    ".join(shard.text() for shard in shards)
    return json.dumps(head, indent=2).removesuffix("\n}") + f',\n  "shards": [\n    {lines}\n  ]\n}}\n'


def load(location: Location) -> Manifest | None:
    """None if there is none. Raises DataError."""
    content = location.read(NAME)
    if content is None:
        return None
    try:
        found: dict[str, Any] = json.loads(content)
        if found["version"] != VERSION or found["format"] not in FORMATS:
            raise ValueError(f"version {found['version']}, format {found['format']}")
        shards = tuple(Shard.parse(each) for each in found["shards"])
        left_out = tuple(found["left_out"])
        counts = found["samples"], found["remainder"]
        return Manifest(found["format"], found["source"], *counts, left_out, shards, found["plan"])
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{location.url}/{NAME}: cannot be read: {type(error).__name__}: {error}", HINT) from None
