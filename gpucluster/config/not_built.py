"""What cluster.yaml may ask for and this version does only in part. Building the rest removes its line."""

from __future__ import annotations

from collections.abc import Iterator

from gpucluster.config.document import Finding, Path
from gpucluster.config.models import BeegfsRam, ClusterConfig


def not_built(config: ClusterConfig) -> Iterator[Finding]:
    for path, what, until_then in _asked_for(config):
        yield Finding(path, f"{what} is not built yet", until_then, "warning")


def _asked_for(config: ClusterConfig) -> Iterator[tuple[Path, str, str]]:
    for index, storage in enumerate(config.storage):
        if isinstance(storage, BeegfsRam) and storage.scope == "job":
            yield ("storage", index, "scope"), "a file system for one job", "its AWS resources are made"
