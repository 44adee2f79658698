"""Nodes of a running job that do not answer Slurm, while it has not given them up yet."""

from __future__ import annotations

import time

from gpucluster.head import slurm
from gpucluster.head.remote import Remote
from gpucluster.head.slurm import Job

LOOK_S = 10.0
_NO_ANSWER = "*"

# SlurmdTimeout, which another cluster may have changed, and whether the job may be requeued.
_READ = r"""
scontrol show config | sed -n 's/^SlurmdTimeout *= *\([0-9]*\).*/\1/p'
squeue --noheader --jobs="$1" --Format=Requeue:4 | head -n 1
"""


def of(remote: Remote, job: Job) -> list[str]:
    names = _nodes(remote, job)
    return [_sentence(remote, job, names)] if names else []


def _nodes(remote: Remote, job: Job) -> list[str]:
    if job.phase != "running" or not job.node_list:
        return []
    found = slurm.parse_nodes(remote.run(slurm.sinfo_argv(nodes=job.node_list)).stdout)
    silent = (node.name for node in found if node.mark == _NO_ANSWER and not node.state.startswith("down"))
    return list(dict.fromkeys(silent))  # sinfo has a line for each partition


def _sentence(remote: Remote, job: Job, names: list[str]) -> str:
    said = f"Slurm gets no answer from {', '.join(names)}: the network, the clock, slurmd or the instance has failed"
    timeout, requeue = [*remote.run(["sh", "-c", _READ, "sh", job.job_id]).stdout.split(), "", ""][:2]
    if not timeout.strip("0"):
        return said
    then = "ends the job" if requeue == "0" else "runs the job again on other nodes"
    return f"{said}; after {timeout} s without an answer Slurm gives a node up and {then}"


class Watch:
    """For callers that ask often: it looks every LOOK_S. It reports only what two looks in a row have found: slurmd
    does not answer either while systemd restarts it."""

    def __init__(self, remote: Remote) -> None:
        self._remote, self._looked = remote, -LOOK_S
        self._names, self._said = list[str](), list[str]()

    def of(self, job: Job) -> list[str]:
        if time.monotonic() - self._looked >= LOOK_S:
            self._looked = time.monotonic()
            before, self._names = self._names, _nodes(self._remote, job)
            still = [name for name in self._names if name in before]
            self._said = [_sentence(self._remote, job, still)] if still else []
        return self._said
