"""One case of a validator, and the shorthands that its clusters are written in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Keys = dict[str, Any]

PARTITION: Keys = {"name": "train", "instance_types": ["p4d.24xlarge"], "max_nodes": 8}


@dataclass(frozen=True)
class Case:
    fails: Keys
    says: str
    """The finding's message, whole."""
    key: str
    """Where: as the finding names it."""
    passes: Keys
    times: int = 1
    """How often the validator speaks of the cluster that fails. `says` and `key` are of the first time."""


def cluster(**keys: Any) -> Keys:
    """A sound one, with these keys instead of its own."""
    return {"name": "GpuCluster", "region": "us-east-1", "partitions": [PARTITION], **keys}


def partition(**keys: Any) -> Keys:
    """A cluster with one partition, with these keys instead of its own."""
    return cluster(partitions=[{**PARTITION, **keys}])


def storage(type_: str, **keys: Any) -> Keys:
    """A cluster with one file system beside /home."""
    return cluster(storage=[{"mount": "/data", "type": type_, **keys}])
