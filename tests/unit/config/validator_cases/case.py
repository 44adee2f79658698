"""One case of a validator, and shorthands for its clusters."""

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
    """The key in the finding."""
    passes: Keys
    times: int = 1
    """Number of findings for the failing cluster. `says` and `key` belong to the first."""


def cluster(**keys: Any) -> Keys:
    """A valid cluster, with these keys instead of its own."""
    return {"name": "GpuCluster", "region": "us-east-1", "partitions": [PARTITION], **keys}


def partition(**keys: Any) -> Keys:
    """A cluster with one partition, with these keys instead of its own."""
    return cluster(partitions=[{**PARTITION, **keys}])


def storage(type_: str, **keys: Any) -> Keys:
    """A cluster with one file system beside /home."""
    return cluster(storage=[{"mount": "/data", "type": type_, **keys}])
