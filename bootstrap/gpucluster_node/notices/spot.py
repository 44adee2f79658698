"""Reads EC2's notices for this spot instance, and gets its jobs to other nodes in time.

EC2 gives notice two minutes before it terminates a spot instance, and says to look every 5 s (EC2's guide,
spot-instance-termination-notices). After the notice Slurm gives the node no further job, and the node's jobs get the
`signal` that they requested. Shortly before the end they are requeued. A job that shrinks with its nodes
(--no-kill) is left alone. At a rebalance recommendation the node is powered down once no job runs on it, unless it is
always on: it would be launched again at once, perhaps to the same recommendation.
"""

from __future__ import annotations

import json
import logging
import socket
import time
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from urllib.error import HTTPError

from gpucluster_node import fleet, imds, scripts, slurm
from gpucluster_node.log import start_logging

log = logging.getLogger("spot")
EVERY_S = 5
END = "meta-data/spot/instance-action"
REBALANCE = "meta-data/events/recommendations/rebalance"
REQUEUE_BEFORE = timedelta(seconds=40)
"""A job needs KillWait, 10 s, to end and to write its result, and Slurm a moment more."""
TRIES = 3
"""How often a call about a job is repeated. Slurm may be busy, or it may refuse permanently."""


@dataclass(frozen=True)
class Notice:
    action: str
    """terminate, stop or hibernate."""
    at: datetime

    @property
    def words(self) -> str:
        return f"spot: EC2 will {self.action} it at {self.at:%Y-%m-%dT%H:%M:%SZ}"


def parse(text: str) -> Notice:
    """Parses the form in EC2's guide: {"action": "terminate", "time": "2017-09-18T08:22:00Z"}."""
    found = json.loads(text)
    at = datetime.strptime(found["time"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc)
    return Notice(found["action"], at)


def read(path: str) -> str | None:
    """None if there is no such notice."""
    try:
        return imds.ask(path)
    except HTTPError as error:
        if error.code == 404:
            return None
        raise


class Watch:
    """Each step is repeated if Slurm does not accept it."""

    def __init__(self, node: str, ask: Callable[[str], str | None] = read, always_on: Collection[str] = ()) -> None:
        self._node, self._ask, self._always_on = node, ask, always_on
        self._reason = ""
        self._tries = Counter[tuple[str, str]]()

    def look(self, now: datetime) -> None:
        text = self._ask(END)
        if text:
            self._before_the_end(parse(text), now)
        elif self._node not in self._always_on and self._ask(REBALANCE):
            self._power_down("spot: EC2 recommends to rebalance: it may terminate this node soon")

    def _before_the_end(self, notice: Notice, now: datetime) -> None:
        self._power_down(notice.words)
        for job in slurm.running_on(self._node):
            script = scripts.text(job)
            self._tell(job, notice, script)
            if now >= notice.at - REQUEUE_BEFORE and not scripts.shrinks(script):
                self._once(job, "requeue", lambda job_id: slurm.job("requeue", job_id))

    def _power_down(self, reason: str) -> None:
        """Running jobs continue."""
        if self._reason != reason:
            log.info("%s: %s", self._node, reason)
            slurm.update([self._node], state="power_down_asap", reason=reason)
            self._reason = reason

    def _tell(self, job: slurm.Running, notice: Notice, script: str) -> None:
        """The comment becomes the reason in the job's result."""
        why = f"run {job.restarts}: {self._node} was lost: {notice.words}"
        self._once(job, "comment", lambda job_id: slurm.comment(job_id, why))
        if name := scripts.signal(script):
            # A heterogeneous job's script gets it, and its other parts refuse it (job_mgr.c: het_job_signal).
            self._once(job, "signal", lambda job_id: slurm.signal(job_id, name), tries=1)

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


def main() -> None:
    start_logging()
    watch = Watch(socket.gethostname().partition(".")[0], always_on=fleet.load().always_on())
    while True:
        try:
            watch.look(datetime.now(timezone.utc))
        except (OSError, ValueError, KeyError, slurm.SlurmError) as error:
            log.warning("will look again: %s", error)
        time.sleep(EVERY_S)


if __name__ == "__main__":
    main()
