"""What a deployment keeps of its cluster file, in the metadata of the stack's template.

JSON in a string: as a structure the template would spend a line and its indentation on each key.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from gpucluster.config import ClusterConfig
from gpucluster.updates.difference import plain

METADATA_KEY = "GpuCluster"


class UnknownRecord(Exception):
    """Another version of GpuCluster deployed the cluster; the message says what is wrong with the record."""


@dataclass(frozen=True)
class Deployed:
    config: ClusterConfig
    availability_zone: str
    """The one in use, whether the file names it or not."""

    def compared_with(self, wanted: ClusterConfig) -> tuple[ClusterConfig, ClusterConfig]:
        """Old and new. To name the zone that was taken anyway is no change, nor is to leave it out."""
        zone = wanted.availability_zone or self.availability_zone
        named = {"availability_zone": self.availability_zone}
        return self.config.model_copy(update=named), wanted.model_copy(update={"availability_zone": zone})


def storage_version(config: ClusterConfig) -> str:
    """Eight hex digits over what a node mounts when it boots. A file system that grows is the same; one in the memory
    of nodes is none of these: its partition is drained."""
    mounted = sorted((each["mount"], each["type"]) for each in plain(config)["storage"] if each["type"] != "beegfs-ram")
    return hashlib.sha256(json.dumps(mounted).encode()).hexdigest()[:8]


def metadata(config: ClusterConfig, *, availability_zone: str) -> dict[str, str]:
    """The same file gives the same text."""
    record = {"availability_zone": availability_zone, "config": plain(config)}
    return {METADATA_KEY: json.dumps(record, sort_keys=True, separators=(",", ":"))}


def read(metadata: Mapping[str, Any]) -> Deployed:
    """Raises UnknownRecord."""
    text = metadata.get(METADATA_KEY)
    if text is None:
        raise UnknownRecord("it kept no record of its cluster file")
    try:
        record = json.loads(text)
        return Deployed(ClusterConfig.model_validate(record["config"]), record["availability_zone"])
    except ValidationError as error:
        first = error.errors()[0]
        raise UnknownRecord(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise UnknownRecord(f"it cannot be read: {error!r}") from None
