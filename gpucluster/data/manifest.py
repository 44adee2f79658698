"""manifest.json, beside the shards: what they hold, and proof of it. Where it is, all shards are."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from gpucluster.data.packing import Shard
from gpucluster.data.places import Place
from gpucluster.data.plan import VERSION, Plan
from gpucluster.data.records import FORMATS
from gpucluster.errors import DataError

NAME = "manifest.json"
HINT = "remove that file, and pack the data again with `gpucluster data shard`"


@dataclass(frozen=True)
class Manifest:
    format: str
    source: str
    samples: int
    remainder: int
    left_out: tuple[str, ...]
    shards: tuple[Shard, ...]
    plan: str
    """The id of the plan that they are made by."""

    @property
    def bytes(self) -> int:
        return sum(shard.bytes for shard in self.shards)


def text(plan: Plan, shards: list[Shard]) -> str:
    """A shard a line, so that two manifests can be compared by eye."""
    head = {
        "version": VERSION,
        "format": plan.format,
        "seed": plan.seed,
        "source": plan.source,
        "samples": plan.samples,
        "remainder": plan.remainder,
        "left_out": plan.left_out,
        "classes": plan.classes,
        "plan": plan.id,
    }
    lines = ",\n    ".join(shard.text() for shard in shards)
    return json.dumps(head, indent=2).removesuffix("\n}") + f',\n  "shards": [\n    {lines}\n  ]\n}}\n'


def load(place: Place) -> Manifest | None:
    """None where there is none. Raises DataError."""
    content = place.read(NAME)
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
        raise DataError(f"{place.url}/{NAME}: cannot be read: {type(error).__name__}: {error}", HINT) from None
