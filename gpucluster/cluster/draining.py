"""Drains nodes before a change, and resumes them afterwards. Running jobs continue to their end; pending jobs stay in
the queue.

The nodes are drained, not their partition: a partition in DRAIN refuses new jobs but still starts pending ones, and
a partition that is DOWN is UP again as soon as slurmctld reads its new configuration. Slurm ends the drain of a node
that it powers down because it has been idle for SuspendTime (power_save.c: _do_power_work, idle_on_node_suspend), so
the drain is set again while jobs run, and instances terminate, on other nodes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

from gpucluster.errors import GpuClusterError
from gpucluster.head import queue, slurm
from gpucluster.head.remote import Remote

Tell = Callable[[str], None]

REASON = "gpucluster up --drain"
POLL_S = 5.0
REMIND_S = 60.0


def nodes_above(drains: Mapping[str, int], most: Mapping[str, int]) -> list[str]:
    """Ranges in Slurm's form, one for each partition. `drains`: partition -> the number above which nodes are removed;
    `most`: partition -> its highest number."""
    return [_range(partition, above + 1, most[partition]) for partition, above in drains.items()]


def _range(partition: str, first: int, last: int) -> str:
    return f"{partition}-{first}" if first == last else f"{partition}-[{first}-{last}]"


class Drained:
    """Nodes that take no new jobs. `connect` opens a connection to the head node, which a change may have replaced."""

    def __init__(self, connect: Callable[[], Remote], nodes: Sequence[str], tell: Tell) -> None:
        self._connect = connect
        self._nodes = ",".join(nodes)
        self._tell = tell

    def begin(self) -> None:
        self._tell(f"draining {self._nodes}: running jobs continue to their end, others stay pending")
        self._set("drain", REASON)

    def wait_for_jobs(self) -> None:
        """Waits without a limit. Reports the jobs when they change and every minute."""
        reported: set[str] = set()
        reported_at = 0.0
        while jobs := self._jobs_of_drained():
            ids = {job.job_id for job in jobs}
            if ids != reported or time.monotonic() - reported_at > REMIND_S:
                self._tell(f"waiting for {len(jobs)} job{'s' if len(jobs) > 1 else ''}: {', '.join(map(_words, jobs))}")
                reported, reported_at = ids, time.monotonic()
            time.sleep(POLL_S)

    def _jobs_of_drained(self) -> list[slurm.Job]:
        """The jobs on these nodes, after each of them has been drained."""
        self._drain_again()
        return self.jobs()

    def _drain_again(self) -> None:
        """For SuspendTimeout after a power-down, which is longer than POLL_S, Slurm starts no job on the node. Nodes
        that are down or that somebody else has drained keep their reason."""
        remote = self._connect()
        found = remote.run(slurm.sinfo_argv(nodes=self._nodes)).check("cannot list the nodes")
        lost = dict.fromkeys(node.name for node in slurm.parse_nodes(found.stdout) if node.available)
        if lost:
            self._set("drain", REASON, ",".join(lost))

    def jobs(self) -> list[slurm.Job]:
        """The jobs on these nodes."""
        return running(self._connect(), self._nodes)

    def power_down(self, instances: Callable[[], Collection[str]]) -> None:
        """`instances`: the names of nodes that still have an instance. Powering down ends a drain, so the drain is set
        again: otherwise a job or `min_nodes` could start a node before the change. Each pass sets it, because the head
        node soon lets Slurm use a node whose instance is terminated (states.FREE), while others still terminate."""
        names = sorted(instances())
        if not names:
            return
        self._tell(f"terminating the instances of {' '.join(names)}")
        self._set("power_down_force", REASON)
        while instances():
            self._drain_again()
            time.sleep(POLL_S / 5)
        self._set("drain", REASON)

    def end(self) -> None:
        """Resumes the remaining nodes, except those that were drained for another reason. Slurm appends its own to ours
        if a node does not answer."""
        remote = self._connect()
        found = remote.run(slurm.sinfo_argv()).check("cannot list the nodes")
        nodes = slurm.parse_nodes(found.stdout)
        ours = dict.fromkeys(
            node.name for node in nodes if node.reason.split(" : ")[0] == REASON and not node.available
        )
        if ours:
            remote.run(slurm.node_state_argv(",".join(ours), "resume")).check("cannot resume the nodes")
            self._tell(f"back in service: {' '.join(ours)}")

    def end_if_possible(self) -> None:
        """As `end`, after another error, which is the one to report."""
        try:
            self.end()
        except GpuClusterError as error:
            self._tell(f"{self._nodes} may still be drained: {error.message}")

    def _set(self, state: str, reason: str, nodes: str = "") -> None:
        names = nodes or self._nodes
        argv = slurm.node_state_argv(names, state, reason)
        self._connect().run(argv).check(f"cannot set {names} to {state}")


def running(remote: Remote, nodes: str | None = None) -> list[slurm.Job]:
    """Jobs that have nodes or whose nodes are starting, in the whole cluster or on some nodes."""
    found = remote.run(slurm.squeue_argv(nodes=nodes)).check("cannot list the jobs")
    return [job for job in queue.parse_jobs(found.stdout) if slurm.job_state(job.state).has_nodes]


def _words(job: slurm.Job) -> str:
    limit = "" if job.time_limit.startswith(("UNLIMITED", "365-")) else f" of {job.time_limit}"
    return f"{job.job_id} ({job.name}, {job.elapsed}{limit})"


@contextmanager
def kept_out_of_service(drained: Drained, instances: Callable[[], Collection[str]] | None) -> Iterator[None]:
    """Keeps nodes drained during the change in the body, and resumes them even if it fails or is interrupted.

    `instances`: as in `power_down`; None if the nodes may keep running."""
    try:
        drained.begin()
        drained.wait_for_jobs()
        if instances:
            drained.power_down(instances)
        yield
    except BaseException:
        drained.end_if_possible()
        raise
    drained.end()
