"""On the head node, before a run of a task is queued; the caller holds the task's lock.

usage: task JOB             prints one line of JSON if the run is skipped. Exit code 3: refused; stderr has the reason
       task JOB INDEX...    for an array: whether these elements may run again

FOLDER/job has the id and the folder of the run that was queued last.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from gpucluster_job import elements
from gpucluster_job.task import runs
from gpucluster_job.task.asked import Asked

REFUSED = 3
OVER = [
    "BOOT_FAIL",
    "CANCELLED",
    "COMPLETED",
    "DEADLINE",
    "FAILED",
    "NODE_FAIL",
    "OUT_OF_MEMORY",
    "PREEMPTED",
    "REVOKED",
    "TIMEOUT",
]


def main(words: list[str]) -> int:
    asked = Asked.read(Path(words[1]))
    return _again(asked, words[2:]) if words[2:] else _run(asked)


def _run(asked: Asked) -> int:
    job_id = queued(asked)
    if job_id and asked.joins and not asked.force and (folder := joined(asked)):
        print(json.dumps({"skipped": True, "queued": True, "job_id": job_id, "folder": str(folder)}))
        return 0
    if job_id:
        print(f"error: {refusal(asked.label, job_id)}", file=sys.stderr)
        return REFUSED
    stands_on = None if asked.force or asked.clean else same(asked)
    if stands_on:
        print(json.dumps({"skipped": True, "job_id": stands_on["job_id"], "folder": stands_on["job_folder"]}))
    return 0


def _again(asked: Asked, indexes: list[str]) -> int:
    """Other elements of the array may run meanwhile: each has its own state."""
    own = unfinished(asked.job, *elements.arrays(asked.job))
    if running := next((each for each in own if each.partition("_")[2] in indexes), None):
        print(f"error: job {running} has not ended: `gpucluster cancel {running}` cancels it", file=sys.stderr)
        return REFUSED
    queued_last = latest_queued(asked)
    if queued_last and queued_last[1] != asked.job.name and (job_id := queued(asked)):
        print(f"error: {refusal(asked.label, job_id)}", file=sys.stderr)
        return REFUSED
    return 0


def refusal(label: str, job_id: str) -> str:
    return (
        f"job {job_id} of the task {label} has not ended, and two runs at once would write to one state: "
        f"`gpucluster cancel {job_id}` cancels it, and --name makes this job a run of another task"
    )


def joined(asked: Asked) -> Path | None:
    """The folder of the newest run, if it is equal."""
    folder = asked.job.parent / Path(asked.folder, "job").read_text(encoding="utf-8").split()[1]
    return folder if Asked.read(folder).key == asked.key else None


def same(asked: Asked) -> runs.Record | None:
    """The last run, if it succeeded and is equal."""
    last = latest(asked)
    return last if last and last["exit_code"] == 0 and last["key"] == asked.key else None


def latest(asked: Asked) -> runs.Record | None:
    """None if the newest run has no record: its first node was lost, or it was cancelled while
    pending."""
    last, queued_last = runs.last(asked.runs), latest_queued(asked)
    if queued_last and last and queued_last[1] != Path(last["job_folder"]).name:
        return None
    return last


def latest_queued(asked: Asked) -> tuple[str, str] | None:
    """The id and the folder's name of the task's run that was queued last."""
    try:
        job_id, folder = Path(asked.folder, "job").read_text(encoding="utf-8").split()
    except (OSError, ValueError):
        return None
    return job_id, folder


def queued(asked: Asked) -> str | None:
    """The id of the task's run that has not ended. For an array, any array that ran in its folder: elements of the
    first may still run while others run again in a later one."""
    found = latest_queued(asked)
    if found is None:
        return None
    folder = asked.job.parent / found[1]
    shown = unfinished(folder, found[0], *elements.arrays(folder))
    return re.split("[_+]", shown[0])[0] if shown else None


def unfinished(folder: Path, *job_ids: str) -> list[str]:
    """Their ids in squeue's form, 29_3. In a new cluster an id may belong to another job, which has another folder."""
    return [each.job_id for each in known(*job_ids) if each.state not in OVER and each.is_in(folder)]


class Known(NamedTuple):
    job_id: str
    state: str
    workdir: str

    def is_in(self, folder: Path) -> bool:
        """Slurm has the path as --chdir gave it, which may lead over a link."""
        return os.path.realpath(self.workdir).startswith(f"{os.path.realpath(str(folder))}/")


def known(*job_ids: str) -> list[Known]:
    """These jobs as Slurm knows them: one for each element of an array, or part of a heterogeneous job."""
    if not job_ids:
        return []
    jobs = ",".join(dict.fromkeys(job_ids))
    command = ["squeue", "--noheader", "--array", f"--jobs={jobs}", "--states=all", "--format=%i %T %Z"]
    shown = subprocess.run(command, capture_output=True, text=True, check=False)
    if shown.returncode and "Invalid job id" not in shown.stderr:  # Slurm has forgotten this job
        raise SystemExit(f"error: Slurm does not say whether job {jobs} has ended: {shown.stderr.strip()}")
    return [Known(*line.split(" ", 2)) for line in shown.stdout.splitlines()]
