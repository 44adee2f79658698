"""Where on the cluster TensorBoard's event files of jobs are, and under which name TensorBoard shows each run."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpucluster import account
from gpucluster.errors import UsageError
from gpucluster.following import event_folders, jobs, ownership
from gpucluster.head.remote import Remote

FOLDER = "tensorboard"
"""In the state (gpucluster_job/task/events.py)."""
_LONGEST = 120


@dataclass(frozen=True)
class Run:
    job_id: str
    label: str
    """A path below TensorBoard's folder: `12 digits`, or `29 digits/lr=0.1,seed=1` for an element of a sweep."""
    folder: str
    """Absolute, on the cluster. It may not exist: then rank 0 has written nothing."""


def of(remote: Remote, job_ids: Sequence[str]) -> list[Run]:
    """Runs of one task share a folder, and are one run for TensorBoard. Raises UsageError for a job that is not
    there."""
    program = Path(event_folders.__file__).read_text(encoding="utf-8")
    argv = ["/usr/bin/python3", "-IS", "-c", program, remote.real(account.jobs()), *job_ids]
    done = remote.run(argv).check("cannot find the jobs' folders")
    found = [json.loads(line) for line in done.stdout.splitlines()]
    for job_id in job_ids:
        if not any(each["asked"] == job_id for each in found):
            ownership.refuse_anothers(remote, job_id.partition("_")[0])
            raise UsageError(f"job {job_id} has no folder", "`gpucluster jobs` lists the jobs")
    by_folder = {run.folder: run for run in reversed(list(_runs(found)))}
    return list(reversed(by_folder.values()))


def _runs(found: Sequence[dict[str, Any]]) -> Iterator[Run]:
    for each in found:
        state = jobs.own_state(each["task"], each["job_id"]) or f"{each['folder']}/state"
        yield Run(each["job_id"], _label(each), f"{state}/{FOLDER}")


def _label(found: dict[str, Any]) -> str:
    """Names and values are their users': each becomes one name of a folder."""
    number, _, index = found["job_id"].partition("_")
    whole = _name(f"{number} {found['name']}")
    values = ",".join(f"{name}={value}" for name, value in found["values"].items())
    return f"{whole}/{_name(values or index)}" if index else whole


def _name(text: str) -> str:
    return re.sub(r"[^\w .,=+@-]", "_", text)[:_LONGEST].strip(" .") or "_"
