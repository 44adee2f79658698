"""How busy nodes and GPUs are and were: the samples of Prometheus on the head node, and the summary of an ended job."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpucluster.errors import RemoteError
from gpucluster.head.remote import Remote

UNITS = {
    "gpu_util_percent": "%",
    "gpu_memory_gib": "GiB",
    "gpu_power_w": "W",
    "gpu_sm_clock_mhz": "MHz",
    "gpu_temperature_c": "°C",
    "nvlink_gib_s": "GiB/s",
    "cpu_percent": "%",
    "memory_gib": "GiB",
    "network_gib_s": "GiB/s",
    "efa_gib_s": "GiB/s",
    "disk_read_gib_s": "GiB/s",
    "disk_write_gib_s": "GiB/s",
}
"""The name of each series, and its unit."""


class Unavailable(RemoteError):
    """There are no samples: no Prometheus, or an older cluster. The message is a sentence that says why."""


@dataclass(frozen=True)
class Series:
    node: str
    gpu: int | None
    """None: of the whole node."""
    name: str
    unit: str
    points: tuple[tuple[float, float], ...]
    """Unix seconds and value, oldest first."""


@dataclass(frozen=True)
class GpuNow:
    index: int
    util_percent: float
    memory_used_gib: float
    memory_gib: float
    power_w: float
    temperature_c: float
    throttled: tuple[str, ...]
    """Why its clocks are lowered, in words; empty if they are not."""


@dataclass(frozen=True)
class NodeNow:
    node: str
    at_s: float
    cpu_percent: float
    """Of all cores together: 0 to 100."""
    memory_used_gib: float
    memory_gib: float
    gpus: tuple[GpuNow, ...]


def series(
    remote: Remote,
    nodes: Collection[str],
    start_s: float,
    end_s: float,
    names: Sequence[str] = (),
    step_s: float | None = None,
) -> list[Series]:
    """`names`: of UNITS, by default all. At most some 500 points each. Raises Unavailable."""
    raise Unavailable("this cluster has no samples yet", "`gpucluster up` installs what takes them")


def now(remote: Remote) -> list[NodeNow]:
    """The newest sample of each running node. Raises Unavailable."""
    raise Unavailable("this cluster has no samples yet", "`gpucluster up` installs what takes them")


def summary(remote: Remote, job_id: str) -> Mapping[str, Any] | None:
    """usage.json of an ended job: mean, max and p95 per node and GPU, energy, idle share. None if it has none."""
    return None
