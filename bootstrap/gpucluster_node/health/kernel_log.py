"""Follows the kernel log while jobs run. When a GPU breaks, it requeues the jobs that use the GPU and drains the node.

The program on a broken GPU fails within seconds, and its job with it. Slurm no longer says which GPUs an ended job had,
so this program must act at once: it requeues the jobs first, because a drain may take seconds. A job whose script has
failed meanwhile is requeued too if it had all GPUs of the node. The check before the next job would find the fault, if
one started here before the drain. Other jobs of the node continue, and so does a job that shrinks with its nodes
(--no-kill).

While slurmctld does not answer, for example because the head node is being replaced, this program repeats its commands.
slurmctld then learns late that a job's script has failed, perhaps for another reason: such a job is requeued too.
"""

from __future__ import annotations

import logging
import queue
import re
import subprocess
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from gpucluster_node import scripts, slurm
from gpucluster_node.health import answered, facts, failed_jobs, held_gpus, journal, look, xid
from gpucluster_node.log import start_logging

log = logging.getLogger("health")
TIME = "%Y-%m-%dT%H:%M:%SZ"
FOLLOW = ("journalctl", "--dmesg", "--follow", "--lines=0", "--output=json", "--output-fields=MESSAGE")
"""Without --grep, which with --lines implies --reverse (journalctl(1))."""
GPUS = Path("/proc/driver/nvidia/gpus")
_MINOR = re.compile(r"^Device Minor:\s*(\d+)", re.MULTILINE)


@dataclass(frozen=True)
class Seen:
    fault: xid.Fault
    at: datetime
    """With a time zone."""
    first: bool = True
    """Only the first fault drains the node, so that it stays the node's reason: later faults follow from it."""


def follow(lines: Iterable[str]) -> None:
    """lines: messages of the kernel log. Handles each fault once. After an error the driver logs others, of the same
    GPU or of the whole node. Another thread reads the lines meanwhile: it knows when each fault came."""
    seen: queue.SimpleQueue[Seen | None] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(lines, seen), daemon=True).start()
    while each := seen.get():
        requeue_and_drain(each)


def _read(lines: Iterable[str], seen: queue.SimpleQueue[Seen | None]) -> None:
    known = set[xid.Fault]()
    try:
        for fault in (fault for line in lines for fault in xid.faults(line)):
            if fault not in known:
                seen.put(Seen(fault, datetime.now(timezone.utc), first=not known))
                known.add(fault)
    finally:
        seen.put(None)


def requeue_and_drain(seen: Seen) -> None:
    why = look.reason([seen.fault.description])
    log.info("%s", why)
    if seen.fault.reach != "none":
        _until_answered(lambda: _rerun_jobs(seen, why), "its jobs")
    if seen.first:
        _until_answered(lambda: look.drain(why), "drain")


def _until_answered(do: Callable[[], None], what: str) -> None:
    """The check after the job drains the node too."""
    try:
        answered.until_answered(do, what)
    except slurm.SlurmError as error:
        log.warning("%s: %s", what, error)


def _rerun_jobs(seen: Seen, why: str) -> None:
    """Without an answer, slurmctld may have requeued a job. It is called again then, and asks which jobs are left."""
    for job in _jobs(seen.at):
        if not scripts.shrinks(scripts.text(job)) and (seen.fault.reach == "node" or _has(job, seen.fault.gpu)):
            _rerun(job, why, seen.at)


def _jobs(since: datetime) -> list[slurm.Running]:
    """Slurm also requeues a job that has failed, and one that still completes (job_mgr.c: _job_requeue_op)."""
    node = look.own_name()
    jobs = (*slurm.running_on(node), *failed_jobs.on(node, since))
    return list({job.run: job for job in jobs}.values())


def _has(job: slurm.Running, gpu: str) -> bool:
    """Whether the job uses the GPU. If the job has ended, or if the GPU's device file is not known, this is certain
    only for a job that has all GPUs."""
    if job.gpus is not None:
        return job.gpus >= max(1, facts.load().gpus)
    held: list[str] = []
    _try(lambda: held.extend(held_gpus.of(job.part, look.own_name())), f"GPUs of job {job.job_id}")
    file = device_file(gpu)
    return file in held if file else len(held) >= max(1, facts.load().gpus)


def device_file(gpu: str) -> str:
    """Empty if the driver no longer knows the address. nvidia-smi cannot help: it numbers the GPUs differently, and it
    may hang after a fault."""
    for path in GPUS.glob(f"{gpu.lower()}.*/information"):
        if minor := _MINOR.search(path.read_text()):
            return f"/dev/nvidia{minor[1]}"
    return ""


def _rerun(job: slurm.Running, why: str, at: datetime) -> None:
    """The comment becomes the reason in the job's result (gpucluster_job/ending.py)."""
    comment = f"run {job.restarts}: {look.own_name()} was lost: {why} at {at:{TIME}}"
    _try(lambda: slurm.comment(job.job_id, comment), f"comment job {job.job_id}")
    _try(lambda: slurm.job("requeue", job.job_id), f"requeue job {job.job_id}")


def _try(do: Callable[[], None], what: str) -> None:
    """A refusal of one command must not prevent the others."""
    try:
        do()
    except slurm.UnansweredError:
        raise
    except slurm.SlurmError as error:
        log.warning("%s: %s", what, error)


def main() -> None:
    start_logging()
    with subprocess.Popen(FOLLOW, stdout=subprocess.PIPE, text=True, errors="replace") as records:
        follow(map(journal.message, records.stdout or ()))


if __name__ == "__main__":
    main()
