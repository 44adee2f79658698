"""Names of metrics in CloudWatch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpucluster.render import watching

GIB = 1024**3


@dataclass(frozen=True)
class FileSystem:
    """An FSx for Lustre file system."""

    mount: str
    id: str
    capacity_gib: int


@dataclass(frozen=True)
class Metric:
    namespace: str
    name: str
    dimensions: Mapping[str, str] = field(default_factory=dict)


def of_cluster(cluster: str, name: str) -> Metric:
    """Metrics of the whole cluster that the head node publishes."""
    return Metric(watching.NAMESPACE, name, {"Cluster": cluster})


def of_head(cluster: str, name: str, **dimensions: str) -> Metric:
    """Metrics of the head node's CloudWatch agent."""
    return Metric(watching.node_namespace(cluster), name, {"Node": "head", **dimensions})


def of_file_system(file_system: FileSystem, name: str) -> Metric:
    return Metric("AWS/FSx", name, {"FileSystemId": file_system.id})
