"""Writes task.json, which describes the job's task, into its folder for gpucluster_job/task/."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from gpucluster.addresses import in_s3
from gpucluster.job import sameness
from gpucluster.job.script import SbatchRequest
from gpucluster.job.task import Task
from gpucluster.submission.packages import LOCKS, Packages
from gpucluster.submission.snapshot import File, code_files

DEFAULT_RESUBMIT_LIMIT = 20
"""With a time limit of one day, this makes three weeks."""


def files(
    request: SbatchRequest,
    workdir: Path | None,
    own: Packages | None,
    *,
    force: bool = False,
    clean: bool = False,
    joins: bool = False,
) -> dict[str, File]:
    """The files for the job's folder. A job that is no task, is not resubmitted, and has no place in S3 needs none."""
    task, spec = Task.of(request.spec), request.spec
    asked: dict[str, Any] = {"events": request.events} if request.events else {}
    if spec.resubmit:
        asked["resubmit_limit"] = spec.resubmit_limit or DEFAULT_RESUBMIT_LIMIT
    if task:
        asked |= {"label": task.label, "force": force, "clean": clean}
        asked |= {"folder": request.real(task.folder), "state": request.real(task.state)}
        asked |= {"joins": True} if joins else {}
        asked |= _place(spec.state, task)
        asked["key"] = key(request, workdir, own)
    return {"task.json": File(json.dumps(asked, indent=2) + "\n")} if asked else {}


def _place(state: str | None, task: Task) -> dict[str, str]:
    if not state:
        return {}
    place = f"{state.rstrip('/')}/{task.label}"
    return {"s3": place} if in_s3(state) else {"state": place}


def key(request: SbatchRequest, workdir: Path | None, own: Packages | None) -> str:
    more = {
        "code": code_key(workdir) if workdir else "",
        "packages": own.key if own else "",
        "environments": {name: _lock(name) for name in request.environments},
    }
    return sameness.key(request.spec, more)


def code_key(workdir: Path) -> str:
    """A hash of the uploaded files: each one's path, content, and whether it is executable. Times do not count."""
    total = hashlib.sha256()
    for path in code_files(workdir):
        file = workdir / path
        if file.is_symlink():
            what, content = "link", os.readlink(file).encode()
        elif file.is_file():
            what, content = ("program" if os.access(file, os.X_OK) else "file"), file.read_bytes()
        else:
            what, content = "folder", b""
        total.update(json.dumps([str(path), what, hashlib.sha256(content).hexdigest()]).encode())
    return total.hexdigest()


def _lock(environment: str) -> str:
    """The environment's lock: a newer GpuCluster may have other versions under the same name."""
    path = LOCKS / f"{environment}.txt"
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else ""
