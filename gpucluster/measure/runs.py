"""Runs jobs one after another, so that each has the cluster to itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from gpucluster.following import data_wait, jobs
from gpucluster.following.patience import Patience
from gpucluster.head import slurm
from gpucluster.head.remote import Remote
from gpucluster.measure.settings import Setting

THROUGHPUT = "throughput"
"""The metric for speed; all others are compared as results of the runs."""
POLL_S = 0.5
Tell = Callable[[str], None]


@dataclass(frozen=True)
class Run:
    setting: Setting
    job_id: str
    ending: jobs.Ending
    ranks: int

    @property
    def failed(self) -> bool:
        return self.ending.failed

    @property
    def elapsed_s(self) -> float | None:
        """From the job's start to its end, in whole seconds, without waiting for nodes."""
        result = self.ending.result
        if not result:
            return None
        begun, ended = (datetime.fromisoformat(result[key]) for key in ("started_at", "ended_at"))
        return (ended - begun).total_seconds()

    @property
    def data_wait_percent(self) -> float | None:
        return data_wait.percent(self.ending.result)

    @property
    def feed(self) -> Mapping[str, Any]:
        """What a run of `bench --feed` has measured; empty if it has not."""
        found: Mapping[str, Any] = (not self.failed and self.ending.result.get("feed")) or {}
        return found

    @property
    def nodes(self) -> list[str]:
        return list(self.ending.result.get("node_list", ()))

    @property
    def metrics(self) -> Mapping[str, Any]:
        """Those of result.json."""
        return self.ending.result.get("metrics") or {}

    def metric(self, name: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.metrics.get(name) or {}
        return found


class Place(Protocol):
    """Where runs are jobs."""

    def submit(self, setting: Setting, /) -> tuple[str, int]:
        """The job's id and its number of ranks."""

    def awaited(self, job_id: str) -> jobs.Ending: ...

    def cancel(self, job_id: str) -> None: ...


def run_all(order: Sequence[Setting], places: Mapping[str, Place], tell: Tell) -> Iterator[Run]:
    """`places`: target -> place. If the wait is interrupted, the job is cancelled."""
    for number, setting in enumerate(order, 1):
        place = places[setting.target]
        job_id, ranks = place.submit(setting)
        tell(f"{number}/{len(order)} {setting}: job {job_id}")
        try:
            ending = place.awaited(job_id)
        except KeyboardInterrupt:
            place.cancel(job_id)
            tell(f"\njob {job_id} cancelled; the results so far follow")
            raise
        if ending.failed:
            tell(f"  {ending.sentence(job_id)}")
        yield Run(setting, job_id, ending, ranks)


class OnCluster:
    def __init__(self, remote: Remote, submit: Callable[[Setting], tuple[str, int]], tell: Tell) -> None:
        self.submit = submit
        self._remote, self._tell = remote, tell

    def awaited(self, job_id: str) -> jobs.Ending:
        watch = jobs.Watch(self._remote, job_id, self._tell, Patience(job_id, self._tell))
        while True:
            if watch.ended() and (ending := jobs.ending(self._remote, job_id)):
                return ending
            time.sleep(POLL_S)

    def cancel(self, job_id: str) -> None:
        self._remote.run(slurm.scancel_argv(job_id))


def machines(remote: Remote, nodes: Sequence[str]) -> int | None:
    """The number of machines under these nodes, told apart by their kernels. None if a node does not answer.

    A kernel counts its context switches. The count of another node, read between two reads of the first node, lies
    between those two if the kernel is the same. (The boot id is no proof: a container may have its own.)
    """
    counts = [_context_switches(remote, node) for node in (*nodes, *nodes[:1])]
    if None in counts:
        return None
    first, *others, last = (count or (0, 0) for count in counts)
    return len(nodes) - sum(first <= other <= last and other[0] == first[0] for other in others)


def _context_switches(remote: Remote, node: str) -> tuple[int, int] | None:
    """The kernel's boot time in seconds, and its number of context switches."""
    argv = ["ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=5", node, "cat", "/proc/stat"]
    lines = (line.split() for line in remote.run(argv).stdout.splitlines())
    found = {words[0]: int(words[1]) for words in lines if words and words[0] in ("btime", "ctxt")}
    return (found["btime"], found["ctxt"]) if len(found) == 2 else None
