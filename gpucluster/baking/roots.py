"""The sizes of images whose own disk is larger than the nodes' default: in cdk.context.json, for synthesis.

An image's disk never changes, so an entry is for the image alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpucluster.cluster import cdk
from gpucluster.config import ClusterConfig
from gpucluster.config.checks.online.images import ROOT_VOLUME_GIB, amis_of, root_gib


def _key(ami: str) -> str:
    return f"gpucluster-root:ami={ami}"


def gib(entries: Mapping[str, Any], image: str, wanted: int | None) -> int:
    """The size of a root disk. `entries`: of `pins.read`; `wanted`: of the file."""
    return wanted or max(ROOT_VOLUME_GIB, int(entries.get(_key(image), 0)))


def pin(config_file: Path, config: ClusterConfig, ec2: Any) -> Path | None:
    """Writes the sizes of the file's images if they are larger than the default. None if nothing changes."""
    known = cdk.pinned_for(config_file)
    amis = [ami for _, ami in amis_of(config) if _key(ami) not in known]
    found = ec2.describe_images(ImageIds=amis, IncludeDeprecated=True)["Images"] if amis else []
    larger = {_key(each["ImageId"]): root_gib(each) for each in found if root_gib(each) > ROOT_VOLUME_GIB}
    if not larger:
        return None
    path = cdk.context_beside(config_file)
    return cdk.write_context(path, {**cdk.pinned(path), **larger})
