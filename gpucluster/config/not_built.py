"""What cluster.yaml may ask for and this version does only in part. Building the rest removes its line."""

from __future__ import annotations

from collections.abc import Iterator

from gpucluster.config.document import Finding, Path
from gpucluster.config.models import ClusterConfig


def not_built(config: ClusterConfig) -> Iterator[Finding]:
    for path, what, until_then in _asked_for(config):
        yield Finding(path, f"{what} is not built yet", until_then, "warning")


def _asked_for(config: ClusterConfig) -> Iterator[tuple[Path, str, str]]:
    """Key, what it asks for, and what there is until then. At present every key is built."""
    return iter(())
