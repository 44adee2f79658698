"""Lets the task's next run on a Slurm cluster find the state: that reads the files that a list names, and a new id of
the list says that somebody else has written them (gpucluster_train/state_sync.py).

The list is a file of the checkpoints, so SageMaker copies it to S3 like the others.
"""

from __future__ import annotations

import json
import time
import uuid
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Iterable, Mapping

from gpucluster_job.sagemaker import checkpoints

LIST, DISTRIBUTED, OUTPUTS = ".gpucluster-state.json", ".metadata", "outputs"


def write(folder: Path, others: Iterable[str], environment: Mapping[str, str], stopped: bool) -> None:
    """`others`: the names that other hosts have written. If the image can list the objects in S3, it needs them not."""
    if not environment.get(checkpoints.URI):
        return
    now, here = time.time_ns(), checkpoints.sizes(folder)
    files = {name: [0, now, None] for name in (*others, *_in_s3(environment, stopped))}
    for name, size in here.items():
        with suppress(OSError):  # a program may still delete its files
            files[name] = [size, (folder / name).stat().st_mtime_ns, None]
    kept = {name: entry for name, entry in files.items() if is_state(name)}
    if not kept:
        return
    partial = folder / f"{LIST}.tmp"
    with suppress(OSError):
        partial.write_text(json.dumps({"id": uuid.uuid4().hex, "files": kept}), encoding="utf-8")
        partial.replace(folder / LIST)


def is_state(name: str) -> bool:
    """The cluster copies no unfinished files, and the outputs of a task are no state there."""
    parts = PurePosixPath(name).parts
    return parts[0] != OUTPUTS and all(
        part == DISTRIBUTED or not (part.startswith(".") or part.endswith(".tmp")) for part in parts
    )


def _in_s3(environment: Mapping[str, str], stopped: bool) -> Iterable[str]:
    """A stopped container has no time for it."""
    with suppress(checkpoints.Unknown):
        return () if stopped else checkpoints.listed(environment[checkpoints.URI], environment)
    return ()
