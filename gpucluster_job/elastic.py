"""The nodes on which an elastic job starts its ranks again after it lost a node while they started.

Until all ranks have left `hvd.init()`, Horovod cannot lose a node: the other ranks wait for it, end with SIGABRT, and
horovodrun ends (horovod#2484). Later the ranks return to their last commit, and nothing here is called.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time

from gpucluster_job import failures
from gpucluster_job.runner import Runner
from gpucluster_job.settings import Settings, host_names

NOTICED_S = 20.0
"""Ranks may notice the loss of a node before Slurm removes it from the job."""
ABORTED = 128 + signal.SIGABRT


def left(settings: Settings, nodes: list[str], place: str, runner: Runner) -> list[str]:
    """The nodes that the job has, in their order; none if it is not elastic, has lost no node or too many, or if a rank
    failed for a reason of its own. `place`: the folder of `failures`."""
    least = int(os.environ.get("MIN_NODES") or 0)
    if not least or not all(each.code == ABORTED or each.because_of_a_peer for each in failures.recorded(place)):
        return []
    until = time.monotonic() + NOTICED_S
    while len(found := _allocated(settings)) == len(nodes) and time.monotonic() < until and not runner.stopped:
        time.sleep(1)
    there = [node for node in nodes if node in found]
    return there if least <= len(there) < len(nodes) and nodes[0] in there and not runner.stopped else []


def _allocated(settings: Settings) -> list[str]:
    """Slurm removes a lost node from the job. Without an answer, no node counts as left."""
    asked = ["squeue", "--noheader", f"--jobs={settings.shown_id}", "--format=%N"]
    try:
        done = subprocess.run(asked, stdout=subprocess.PIPE, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return host_names(done.stdout.strip()) if done.stdout.strip() else []
