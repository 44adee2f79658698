"""The boot logs of a job's nodes. A node that runs has its own; CloudWatch keeps those of nodes that are gone."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from gpucluster.errors import UsageError
from gpucluster.following import jobs
from gpucluster.head import slurm
from gpucluster.head.remote import Remote

LOG = "/var/log/gpucluster/boot.log"
"""bootstrap/user-data.sh.j2 and all boot steps write it."""
_SSH = ["ssh", "-n", "-o", "BatchMode=yes", "-o", "ConnectTimeout=5"]
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)
"""The time of a step's lines: `say` of bootstrap/lib/runner.sh."""
Kept = Callable[[str, float | None], Iterator[str] | None]
"""The boot log of a node that is gone, by the node's name and the Unix time at which it ran; None: there is none."""


def lines(remote: Remote, job_id: str, node: str | None, kept: Kept) -> Iterator[str]:
    """Each with its node before it. Raises UsageError."""
    names, started_s = _nodes(remote, job_id), _started_s(remote, job_id)
    if node and node not in names:
        raise UsageError(f"job {job_id} had no node {node}", f"its nodes: {' '.join(names)}")
    for name in [node] if node else names:
        found = _live(remote, name, started_s) or kept(name, started_s)
        if found is None:
            yield f"[{name}] no boot log: the node does not run, and CloudWatch has none of it"
        else:
            yield from (f"[{name}] {line}" for line in found)


def _nodes(remote: Remote, job_id: str) -> list[str]:
    job = jobs.require(remote, job_id)
    if job and job.node_list:
        return remote.run(slurm.hostnames_argv(job.node_list)).check("cannot list the job's nodes").stdout.split()
    found = jobs.result(remote, job_id) or {}
    if names := found.get("node_list"):
        return [str(name) for name in names]
    raise UsageError(f"job {job_id} has no nodes yet", f"`gpucluster why {job_id}` says what it waits for")


def _started_s(remote: Remote, job_id: str) -> float | None:
    """None: it has not ended, so its nodes are those that run."""
    started = (jobs.result(remote, job_id) or {}).get("started_at")
    return datetime.fromisoformat(started).timestamp() if started else None


def _live(remote: Remote, node: str, started_s: float | None) -> Iterator[str] | None:
    """None if the node does not run, or was launched again after the job."""
    text = remote.run([*_SSH, node, "cat", LOG]).stdout
    first = _TIME.search(text)
    if not text or (first and started_s and _seconds(first[0]) > started_s):
        return None
    return iter(text.splitlines())


def _seconds(time: str) -> float:
    return datetime.strptime(time, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC).timestamp()
