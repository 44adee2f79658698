"""The newest metrics that a job's program reported: `last.json` in a folder that belongs to the job's user.

Everything in it is untrusted: a link, a pipe, a file without end, a name that looks like a sample of another job.
"""

from __future__ import annotations

import json
import math
import os
import stat
from collections.abc import Iterator
from pathlib import Path

METRICS = Path("/run/gpucluster/metrics")
LONGEST_FILE = 65_536
MOST_NAMES = 100
"""Names of a job: each is a series of its own for Prometheus. Further ones are left out."""
LONGEST_NAME = 100


def newest(job_id: str, uid: int, known: set[str], folder: Path = METRICS) -> dict[str, float]:
    """Name -> value. `known`: the job's names so far, to which new ones are added."""
    try:
        found = json.loads(_text(folder / job_id, uid))
    except (OSError, ValueError, RecursionError):
        return {}
    values = dict(_numbers(found)) if isinstance(found, dict) else {}
    for name in values:
        if len(known) < MOST_NAMES:
            known.add(name)
    return {name: value for name, value in values.items() if name in known}


def _numbers(found: dict[str, object]) -> Iterator[tuple[str, float]]:
    for name, value in found.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < len(name) <= LONGEST_NAME:
            continue
        if name.isprintable() and abs(value) < 1e300 and not math.isnan(value):
            yield name, float(value)


def _text(folder: Path, uid: int) -> str:
    """Raises OSError also if it is not a plain file of the user. Opening a pipe must not wait."""
    directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        file = os.open("last.json", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=directory)
    finally:
        os.close(directory)
    try:
        is_own = stat.S_ISREG((found := os.fstat(file)).st_mode) and found.st_uid == uid and found.st_nlink == 1
        if not is_own or found.st_size > LONGEST_FILE:
            raise OSError("not a plain file of the job's user")
        return os.read(file, LONGEST_FILE).decode()
    finally:
        os.close(file)
