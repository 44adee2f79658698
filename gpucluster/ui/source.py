"""What the page shows, and the calls that find it out. `cluster.py` asks a cluster; tests replay a recording."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from gpucluster.following.arrays import Element
from gpucluster.head import slurm
from gpucluster.head.mounted import Mount

if TYPE_CHECKING:
    from gpucluster.following.cost import Account
    from gpucluster.following.explain import Explanation
    from gpucluster.following.logs import Selection
    from gpucluster.following.metrics import Point
    from gpucluster.following.overview import Overview
    from gpucluster.following.timeline import Span
    from gpucluster.following.usage import Series


@dataclass(frozen=True)
class HistoryRow:
    """A job of the history: pending, running or ended. Text is as its user wrote it."""

    job_id: str
    name: str
    user: str
    state: str
    """Slurm's, without its details."""
    nodes: int
    started_s: float | None
    ended_s: float | None
    reason: str
    usd: float | None = None
    elements: Mapping[str, int] = field(default_factory=dict)
    """Kind -> count, of a sweep or an array."""

    @property
    def phase(self) -> slurm.Phase:
        return slurm.job_state(self.state).phase

    @property
    def kind(self) -> str:
        """For colours: one of waiting, running, completed, failed, cancelled, unknown."""
        if self.phase != "done":
            return self.phase
        return {"COMPLETED": "completed", "CANCELLED": "cancelled"}.get(self.state, "failed")


@dataclass(frozen=True)
class Job:
    row: HistoryRow
    partition: str
    node_list: tuple[str, ...]
    """In the order of the ranks, as far as that is known."""
    ranks: int
    """0 if it is not known."""
    time_limit: str
    result: Mapping[str, Any] | None
    """result.json. None until the job ends, or if it has none."""
    folder: str
    """On the cluster. Empty if it has none: a job that we did not submit, or another user's."""
    summary: Mapping[str, Any] | None = None
    """usage.json of an ended job."""

    @property
    def is_array(self) -> bool:
        return bool(self.row.elements)


@dataclass(frozen=True)
class Script:
    """What was submitted. Text of the job's user, cut if it is long."""

    sbatch: str
    spec: str
    """job.yaml in the job's folder."""
    code: tuple[str, ...]
    """The paths of the files of its code, relative to the folder `code`."""


class Source(Protocol):
    """Every call may raise GpuClusterError, whose sentence the page shows. Threads call side by side."""

    @property
    def cluster(self) -> str:
        """Its name."""
        ...

    @property
    def may_write(self) -> bool: ...

    def overview(self) -> Overview: ...

    def history(self) -> Sequence[HistoryRow]:
        """The newest first."""
        ...

    def job(self, job_id: str) -> Job: ...

    def log(self, job_id: str, selection: Selection) -> Sequence[str]: ...

    def metrics(self, job_id: str) -> Mapping[str, Sequence[Point]]: ...

    def series(
        self, job_id: str, nodes: Sequence[str], start_s: float, end_s: float, names: Sequence[str], step_s: float
    ) -> Sequence[Series]:
        """Series of the nodes, and of the GPUs that the job has there."""
        ...

    def why(self, job_id: str) -> Explanation: ...

    def timeline(self, job_id: str) -> Sequence[Span]: ...

    def elements(self, job_id: str) -> Sequence[Element]: ...

    def script(self, job_id: str) -> Script: ...

    def code(self, job_id: str, path: str) -> str:
        """One file of the job's code."""
        ...

    def results(self, job_ids: Sequence[str]) -> Mapping[str, Mapping[str, Any]]:
        """Job id -> result.json with its metrics, of those that have one."""
        ...

    def costs(self, since_s: float, until_s: float) -> Account: ...

    def storage(self) -> Sequence[Mount]: ...

    def cancel(self, job_id: str) -> None: ...
