"""A submitted job: its state, log and result, and waiting for its end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from gpucluster.errors import CloudError, UsageError
from gpucluster.following import arrays, cancelling, jobs, logs
from gpucluster.following.arrays import Element
from gpucluster.following.patience import Patience
from gpucluster.head import slurm
from gpucluster.head.arrays import array_of
from gpucluster.head.remote import Remote

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Result:
    """How a job ended."""

    job_id: str
    state: str
    """Slurm's state: COMPLETED, FAILED, CANCELLED, TIMEOUT, NODE_FAIL …"""
    reason: str
    """For a failure: rank, node and last message. Empty if there is nothing to add to the state."""
    metrics: dict[str, Any]
    """Values that the job's `metrics` found in the log: for each name last, min, max, median, count and values. Empty
    for a sweep or an array: each of `Run.elements()` has its own."""
    data: dict[str, Any]
    """All of result.json."""

    @property
    def succeeded(self) -> bool:
        return self.state == "COMPLETED"

    def check(self) -> Result:
        """Returns itself if the job succeeded. Raises JobFailedError."""
        jobs.Ending(self.state, self.data).check(self.job_id)
        return self


@dataclass(frozen=True)
class Run:
    job_id: str
    remote: Remote
    skipped: bool = False
    """An equal job had already succeeded: nothing was queued, and this is that job."""

    @property
    def folder(self) -> str:
        """The job's folder on the cluster. Raises UsageError if there is none."""
        return jobs.real_folder(self.remote, self.job_id)

    @property
    def state(self) -> str:
        """Slurm's state: PENDING, CONFIGURING, RUNNING, COMPLETED … Raises UsageError if the job never existed."""
        job = jobs.require(self.remote, self.job_id)
        if job is not None:
            return slurm.base_state(job.state)
        ending = jobs.ending(self.remote, self.job_id)
        return ending.state if ending else "PENDING"

    def result(self) -> Result | None:
        """None until the job ends."""
        jobs.require(self.remote, self.job_id)
        ending = jobs.ending(self.remote, self.job_id)
        if ending is None:
            return None
        metrics = ending.result.get("metrics") or {}
        return Result(self.job_id, ending.state, ending.reason, metrics, ending.result)

    def wait(self, timeout_s: float | None = None, tell: Tell = lambda line: None) -> Result:
        """Waits for the job's end. While the head node does not answer, it tries again and gives `tell` the reason.
        Raises TimeoutError; the job then continues."""
        waiting = Waiting(self, timeout_s, tell)
        while (found := waiting.ask()) is None:
            time.sleep(waiting.pause_s())
        return found

    async def wait_async(self, timeout_s: float | None = None, tell: Tell = lambda line: None) -> Result:
        """As `wait`, while other coroutines run."""
        waiting = Waiting(self, timeout_s, tell)
        while (found := await asyncio.to_thread(waiting.ask)) is None:
            await asyncio.sleep(waiting.pause_s())
        return found

    def logs(self, tell: Tell = lambda line: None) -> Iterator[str]:
        """Yields each line of the log as it is written, until the job ends. `tell` gets changes of its state. Raises
        UsageError for a sweep or an array, whose elements have one each."""
        return logs.follow(self.remote, self.job_id, tell)

    def log(self) -> str:
        """The whole log as it is now."""
        return logs.log(self.remote, self.job_id)

    def elements(self) -> list[Element]:
        """The elements of a sweep or an array, in order: `job_id`, `parameters`, `state`, `metrics` (the last
        values), `reason`. `Cluster.run(element.job_id)` is its run. Raises UsageError for another job."""
        number, index = array_of(self.job_id)
        if index is not None:
            raise UsageError(f"job {self.job_id} is one element: ask job {number} for all", f"run({number}).elements()")
        arrays.require(self.remote, self.job_id)
        return arrays.elements(self.remote, self.job_id)

    def cancel(self) -> None:
        """Has no effect on a job that has ended."""
        job = jobs.require(self.remote, self.job_id)
        if job is not None and job.phase != "done":
            cancelling.cancel(self.remote, self.job_id)


class Waiting:
    """Polls a run's result, and says how long to sleep until the next poll. Tolerates a head node that does not
    answer: it may be restarting, or AWS may have closed the tunnel during a call."""

    def __init__(self, run: Run, timeout_s: float | None, tell: Tell) -> None:
        self._run, self._deadline = run, None if timeout_s is None else time.monotonic() + timeout_s
        self._patience = Patience(run.job_id, tell, self._sleep_for)
        self._pause_s, self._problem = 0.0, ""

    def ask(self) -> Result | None:
        """None until the job is known to have ended. Raises errors that do not pass: see `Patience.outlast`."""
        try:
            found = self._run.result()
        except CloudError as error:
            self._problem = error.message
            self._patience.outlast(error)
            return None
        self._problem = ""
        self._patience.answered()
        self._sleep_for(jobs.POLL_S)
        return found

    def _sleep_for(self, pause_s: float) -> None:
        self._pause_s = pause_s

    def pause_s(self) -> float:
        """Raises TimeoutError."""
        if self._deadline is None:
            return self._pause_s
        left_s = self._deadline - time.monotonic()
        if left_s > 0:
            return min(left_s, self._pause_s)
        if self._problem:
            raise TimeoutError(f"whether job {self._run.job_id} has ended is not known: {self._problem}")
        raise TimeoutError(f"job {self._run.job_id} has not ended yet; it continues")
