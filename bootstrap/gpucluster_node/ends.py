"""A node whose end is known: EC2 has announced it, or the budget is spent. It gets no further job, and its jobs leave
in time.

Each job gets the `signal` that it requested, as long before the end as it requested, and is requeued shortly before the
end. A job that shrinks with its nodes (--no-kill) is not requeued, unless all nodes end.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from gpucluster_node import scripts, slurm

log = logging.getLogger("notices")
SIGNAL_BEFORE = timedelta(minutes=2)
"""The notice of a job that asked for less. Spot instances have these two minutes, and the other ends are no worse."""
REQUEUE_BEFORE = timedelta(seconds=40)
"""A job needs KillWait, 10 s, to end and to write its result, and Slurm a moment more."""
TRIES = 3
"""How often a call about a job is repeated. Slurm may be busy, or it may refuse permanently."""


@dataclass(frozen=True)
class End:
    """What EC2, or the head node, will do to a node."""

    at: datetime
    """With a time zone."""
    words: str
    """Reason of the node and of its jobs, such as `spot: EC2 will terminate it at 2026-01-31T12:00:00Z`."""
    drain_before: timedelta
    """From so long before, Slurm gives the node no further job."""
    state: str = "power_down_asap"
    """What `scontrol` sets then: power_down_asap, or drain, if a node that is powered down would be launched again in
    the same place."""
    of_all: bool = False
    """All nodes end: a job that shrinks with its nodes (--no-kill) is requeued too."""


def utc(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%M:%SZ}"


class Watch:
    """One node, from launch to end. Each step is repeated if Slurm does not accept it."""

    def __init__(self, node: str) -> None:
        self._node = node
        self._reason = ""
        self._tries = Counter[tuple[str, str]]()

    def before(self, end: End, now: datetime, jobs: Sequence[slurm.Running], *, drain: bool = True) -> None:
        """jobs: those that run on the node. drain: false if somebody else has drained it: powering it down would end
        that."""
        left = end.at - now
        if drain and left <= end.drain_before:
            self.take_away(end.words, end.state)
        for job in jobs:
            script = scripts.text(job)
            if left <= max(SIGNAL_BEFORE, scripts.signal_before(script)):
                self._announce(job, end, script)
            if left <= REQUEUE_BEFORE and (end.of_all or not scripts.shrinks(script)):
                self._once(job, "requeue", slurm.requeue)

    def take_away(self, reason: str, state: str = "power_down_asap") -> None:
        """Running jobs continue."""
        if self._reason != reason:
            log.info("%s: %s", self._node, reason)
            slurm.update([self._node], state=state, reason=reason)
            self._reason = reason

    def _announce(self, job: slurm.Running, end: End, script: str) -> None:
        """The comment becomes the reason in the job's result. It also shows that another of the job's nodes, or this
        program before it was restarted, has announced the end: a job gets one signal, not one from each node."""
        if self._tries[job.run, "comment"] >= TRIES or self._is_announced(job):
            return
        why = f"run {job.restarts}: {self._node} was lost: {end.words}"
        self._once(job, "comment", lambda job_id: slurm.comment(job_id, why))
        if name := scripts.signal(script):
            # A heterogeneous job's script gets it, and its other parts refuse it (job_mgr.c: het_job_signal).
            self._once(job, "signal", lambda job_id: slurm.signal(job_id, name), tries=1)

    def _is_announced(self, job: slurm.Running) -> bool:
        try:
            return slurm.has_comment(job)
        except slurm.SlurmError as error:
            log.warning("job %s: %s", job.job_id, error)
            return False

    def _once(self, job: slurm.Running, step: str, do: Callable[[str], None], tries: int = TRIES) -> None:
        """One job's refusal must not block the others."""
        if self._tries[job.run, step] >= tries:
            return
        self._tries[job.run, step] += 1
        log.info("%s job %s", step, job.job_id)
        try:
            do(job.job_id)
            self._tries[job.run, step] = tries
        except slurm.SlurmError as error:
            log.warning("%s job %s: %s", step, job.job_id, error)
