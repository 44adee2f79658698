"""What a deployment keeps of its cluster file, in the metadata of the stack's template.

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
from gpucluster.updates.difference import plain

METADATA_KEY = "GpuCluster"


class UnknownRecord(Exception):
    """Another version of GpuCluster deployed the cluster; the message says what is wrong with the record."""


@dataclass(frozen=True)
class LookedUp:
    """An image that the file names in words, as it was looked up for the deployment."""

    key: str
    """Under which cdk.context.json pins it."""
    image_id: str


@dataclass(frozen=True)
class Deployed:
    config: ClusterConfig
    availability_zone: str
    """The one in use, whether the file names it or not."""
    images: Mapping[str, LookedUp]
    """By their names in the file."""

    def compared_with(self, wanted: ClusterConfig, pinned: Mapping[str, Any]) -> tuple[ClusterConfig, ClusterConfig]:
        """Old and new. To name the zone that was taken anyway is no change, nor is to leave it out.

        `pinned`: of cdk.context.json. An image that is no longer pinned to what it was is another one, under the same
        name: then the old file is given its id, and the new one the id that it would have, where that is known.
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
    """With the id instead of the name, wherever the file says it."""

    def renamed(section: Section) -> Section:
        return section.model_copy(update={"image": image_id}) if getattr(section, "image", None) == name else section

    sections = {"software": renamed(config.software), "head_node": renamed(config.head_node)}
    return config.model_copy(update={**sections, "partitions": tuple(map(renamed, config.partitions))})


def metadata(
    config: ClusterConfig, *, availability_zone: str, images: Mapping[str, LookedUp] | None = None
) -> dict[str, str]:
    """The same file gives the same text."""
    looked_up = {name: asdict(found) for name, found in (images or {}).items()}
    record = {"availability_zone": availability_zone, "config": plain(config), "images": looked_up}
    return {METADATA_KEY: json.dumps(record, sort_keys=True, separators=(",", ":"))}


def read(metadata: Mapping[str, Any]) -> Deployed:
    """Raises UnknownRecord."""
    text = metadata.get(METADATA_KEY)
    if text is None:
        raise UnknownRecord("it stored no copy of its cluster file")
    try:
        record = json.loads(text)
        images = {name: LookedUp(**found) for name, found in record["images"].items()}
        return Deployed(ClusterConfig.model_validate(record["config"]), record["availability_zone"], images)
    except ValidationError as error:
        first = error.errors()[0]
        raise UnknownRecord(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UnknownRecord(f"its copy of the cluster file cannot be read: {error!r}") from None
