"""Follows the kernel log while jobs run. When a GPU breaks, it drains the node and requeues the jobs that use the GPU.

The program on a broken GPU fails within seconds, and its job with it. Slurm requeues only a job that still runs, so
this program must act at once. Other jobs of the node continue, and so does a job that shrinks with its nodes
(--no-kill).
"""

from __future__ import annotations

import logging
import re
import subprocess
from collections.abc import Callable, Iterable
from datetime import datetime, timezone
from pathlib import Path

from gpucluster_node import scripts, slurm
from gpucluster_node.health import facts, look, xid
from gpucluster_node.log import start_logging

log = logging.getLogger("health")
TIME = "%Y-%m-%dT%H:%M:%SZ"
FOLLOW = ("journalctl", "--dmesg", "--follow", "--lines=0", "--output=cat")
"""Without --grep, which with --lines implies --reverse (journalctl(1))."""

GPUS = Path("/proc/driver/nvidia/gpus")
_MINOR = re.compile(r"^Device Minor:\s*(\d+)", re.MULTILINE)


def follow(lines: Iterable[str]) -> None:
    """Handles each fault once. After an error the driver logs others, of the same GPU or of the whole node."""
    known = set[xid.Fault]()
    for fault in (fault for line in lines for fault in xid.faults(line)):
        if fault not in known:
            drain_and_requeue(fault, first=not known)
            known.add(fault)


def drain_and_requeue(fault: xid.Fault, *, first: bool = True) -> None:
    """Only the first fault drains the node, so that it stays the node's reason: later faults follow from it."""
    why = look.reason([fault.description])
    log.info("%s", why)
    if first:
        _try(lambda: look.drain(why), "drain")
    if fault.reach == "none":
        return
    jobs: list[slurm.Running] = []
    _try(lambda: jobs.extend(slurm.running_on(look.own_name())), "its jobs")
    for job in jobs:
        if not scripts.shrinks(scripts.text(job)) and (fault.reach == "node" or _has(job, fault.gpu)):
            _rerun(job, why)


def _has(job: slurm.Running, gpu: str) -> bool:
    """Whether the job uses the GPU. If the GPU's device file is not known, this is certain only for a job that has all
    GPUs."""
    held: list[str] = []
    _try(lambda: held.extend(slurm.gpus_of(job.part, look.own_name())), f"GPUs of job {job.job_id}")
    file = device_file(gpu)
    return file in held if file else len(held) >= max(1, facts.load().gpus)


def device_file(gpu: str) -> str:
    """Empty if the driver no longer knows the address. nvidia-smi cannot help: it numbers the GPUs differently, and it
    may hang after a fault."""
    for path in GPUS.glob(f"{gpu.lower()}.*/information"):
        if minor := _MINOR.search(path.read_text()):
            return f"/dev/nvidia{minor[1]}"
    return ""


def _rerun(job: slurm.Running, why: str) -> None:
    """The comment becomes the reason in the job's result (gpucluster_job/ending.py)."""
    comment = f"run {job.restarts}: {look.own_name()} was lost: {why} at {datetime.now(timezone.utc):{TIME}}"
    _try(lambda: slurm.comment(job.job_id, comment), f"comment job {job.job_id}")
    _try(lambda: slurm.job("requeue", job.job_id), f"requeue job {job.job_id}")


def _try(do: Callable[[], None], what: str) -> None:
    """An error of one Slurm command must not prevent the others. The check after the job drains the node too."""
    try:
        do()
    except slurm.SlurmError as error:
        log.warning("%s: %s", what, error)


def main() -> None:
    start_logging()
    with subprocess.Popen(FOLLOW, stdout=subprocess.PIPE, text=True, errors="replace") as journal:
        follow(journal.stdout or ())


if __name__ == "__main__":
    main()
