"""Where jobs on SageMaker run: sagemaker.yaml, or the section `sagemaker` of a cluster file."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from gpucluster.cluster import local_cloud
from gpucluster.config import ClusterConfig
from gpucluster.errors import ConfigError, UsageError
from gpucluster.sagemaker import target
from gpucluster.sagemaker.connection import Connection, connect
from gpucluster.sagemaker.target import FILE, Target

WRITE = "write a sagemaker.yaml, or a section sagemaker in cluster.yaml; docs/sagemaker.md has both"


class Found(NamedTuple):
    target: Target
    file: Path
    record: local_cloud.Record | None = None
    """That of the cluster, if it is on a local cloud: its jobs on SageMaker run there, too."""
    in_cluster_file: bool = False

    def connect(self) -> Connection:
        return connect(self.target.region, self.record)


def find(path: Path, *, chosen: bool) -> Found:
    """`path`: the cluster file of this command. `chosen`: with -c, which may also name a sagemaker.yaml. Otherwise
    sagemaker.yaml in the current folder comes first. Raises ConfigError, UsageError."""
    own = path if chosen else Path(FILE)
    if own.exists() and not (chosen and _is_cluster(own)):
        return Found(target.load(own), own)
    if not path.exists():
        raise UsageError(f"{path}: no such file" if chosen else f"there is no {FILE} and no {path.name}", WRITE)
    from gpucluster.config import load

    return in_cluster(load(path), path)


def in_cluster(config: ClusterConfig, path: Path) -> Found:
    """Raises UsageError."""
    if config.sagemaker is None:
        raise UsageError(f"{path}: has no section sagemaker, which a job on SageMaker needs", WRITE)
    values = config.sagemaker.model_dump() | {"region": config.region}
    return Found(Target.model_validate(values), path, local_cloud.read(path, config.name), in_cluster_file=True)


def alone(path: Path, *, chosen: bool) -> Found | None:
    """That of a sagemaker.yaml which -c names, or which is here without a cluster file. Raises ConfigError."""
    own = path if chosen else Path(FILE)
    if not chosen and path.exists() or not own.exists():
        return None
    return Found(target.load(own), own) if not chosen or "role_arn" in _keys(own) else None


def _is_cluster(path: Path) -> bool:
    return "partitions" in _keys(path)


def _keys(path: Path) -> Collection[str]:
    from gpucluster.config.parse import parse

    try:
        data = parse(path.read_text(encoding="utf-8"), str(path)).data
    except (OSError, UnicodeDecodeError, ConfigError):
        return ()
    return data.keys() if isinstance(data, dict) else ()
