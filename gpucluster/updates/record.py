"""A deployment's record of its cluster file, in the metadata of the stack's template.

JSON in a string: as a structure the template would spend a line and its indentation on each key.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pydantic import ValidationError

from gpucluster.config import ClusterConfig
from gpucluster.config.section import Section
from gpucluster.layout import expand
from gpucluster.updates.difference import plain
from gpucluster.updates.node_lines import NodeLines, node_lines, without_topology

METADATA_KEY = "GpuCluster"


def replacements_key(cluster: str, *, account: str, region: str) -> str:
    """Key in cdk.context.json: how often the head node was replaced without a change of the file."""
    return f"gpucluster-head:account={account}:cluster={cluster}:region={region}"


class UnknownRecord(Exception):
    """Another version of GpuCluster deployed the cluster. The message is the problem of the record."""


@dataclass(frozen=True)
class LookedUp:
    """An image that the file gives by name, with the id that the deployment looked up."""

    key: str
    """Its key in cdk.context.json."""
    image_id: str


@dataclass(frozen=True)
class Deployed:
    config: ClusterConfig
    availability_zone: str
    """The zone in use, whether the file names it or not."""
    images: Mapping[str, LookedUp]
    """The images by their names in the file."""
    node_lines: NodeLines
    """Those of the deployment's slurm.conf."""

    def compared_with(self, wanted: ClusterConfig, pinned: Mapping[str, Any]) -> tuple[ClusterConfig, ClusterConfig]:
        """The old and the new file. Naming the zone that is already in use is no change; nor is removing its name.

        `pinned`: the entries of cdk.context.json. If an image name is no longer pinned to the deployed id, the old file
        gets the deployed id instead of the name, and the new file the id that it would get, if that is known.
        """
        zone = wanted.availability_zone or self.availability_zone
        old = self.config.model_copy(update={"availability_zone": self.availability_zone})
        new = wanted.model_copy(update={"availability_zone": zone})
        for name, found in self.images.items():
            now = pinned.get(found.key)
            if now != found.image_id:
                old, new = _with_image(old, name, found.image_id), _with_image(new, name, now or name)
        return old, new


def _with_image(config: ClusterConfig, name: str, image_id: str) -> ClusterConfig:
    """The file with the id instead of the name, wherever the name occurs."""

    def renamed(section: Section) -> Section:
        return section.model_copy(update={"image": image_id}) if getattr(section, "image", None) == name else section

    sections = {"software": renamed(config.software), "head_node": renamed(config.head_node)}
    return config.model_copy(update={**sections, "partitions": tuple(map(renamed, config.partitions))})


def metadata(
    config: ClusterConfig,
    *,
    availability_zone: str,
    images: Mapping[str, LookedUp] | None = None,
    head_replacements: int = 0,
) -> dict[str, str]:
    """Equal files give equal text."""
    looked_up = {name: asdict(found) for name, found in (images or {}).items()}
    record: dict[str, Any] = {
        "availability_zone": availability_zone,
        "config": plain(config),
        "images": looked_up,
        "node_lines": node_lines(expand(config)),
        **({"head_replacements": head_replacements} if head_replacements else {}),
    }
    return {METADATA_KEY: json.dumps(record, sort_keys=True, separators=(",", ":"))}


def head_replacements(metadata: Mapping[str, Any]) -> int:
    """The count in a record, which another version may have written."""
    try:
        return int(json.loads(metadata.get(METADATA_KEY, "{}")).get("head_replacements", 0))
    except (ValueError, TypeError, AttributeError):
        return 0


def read(metadata: Mapping[str, Any]) -> Deployed:
    """Raises UnknownRecord."""
    text = metadata.get(METADATA_KEY)
    if text is None:
        raise UnknownRecord("it stored no copy of its cluster file")
    try:
        record = json.loads(text)
        images = {name: LookedUp(**found) for name, found in record["images"].items()}
        config = ClusterConfig.model_validate(record["config"])
        lines = dict(record["node_lines"]) if "node_lines" in record else without_topology(expand(config))
        return Deployed(config, record["availability_zone"], images, lines)
    except ValidationError as error:
        first = error.errors()[0]
        raise UnknownRecord(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UnknownRecord(f"its copy of the cluster file cannot be read: {error!r}") from None
