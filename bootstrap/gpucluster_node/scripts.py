"""What the script of a running job says to Slurm, for programs that take the job's node away."""

from __future__ import annotations

import os
import re
import stat
from datetime import timedelta
from pathlib import Path

from gpucluster_node import slurm

_BYTES = 65536
_SIGNAL = re.compile(r"^#SBATCH --signal=B:(\w+)(?:@(\d+))?", re.MULTILINE)
_SIGNAL_S = 60
"""Slurm's default: sbatch's manual, --signal."""
_SIGNAL_MOST_S = 65535
"""sbatch refuses more (the same), but the line may have come later, or stand where sbatch does not read it."""
_SHRINKS = re.compile(r"^#SBATCH --no-kill\b", re.MULTILINE)


def text(job: slurm.Running) -> str:
    """Its first lines; empty if it has none, or if it is no file."""
    try:
        return read_users_file(Path(job.script), _BYTES)
    except (OSError, ValueError):  # such as a name that is too long, or a file system that is gone
        return ""


def read_users_file(path: Path, most_bytes: int) -> str:
    """The beginning of a file that its user may exchange meanwhile for a pipe or a device; empty if it is no file.
    Raises OSError, and ValueError if the path is none."""
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY), "rb") as file:
        is_file = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
        return file.read(most_bytes).decode(errors="replace") if is_file else ""


def signal(script: str) -> str:
    """The signal that the job asked for; empty if none."""
    asked = _SIGNAL.search(script)
    return asked[1] if asked else ""


def signal_before(script: str) -> timedelta:
    """How long before its end the job asked for the signal; zero if it asked for none."""
    asked = _SIGNAL.search(script)
    if not asked:
        return timedelta()
    seconds = int(asked[2]) if asked[2] and len(asked[2]) <= len(str(_SIGNAL_MOST_S)) else _SIGNAL_S
    return timedelta(seconds=seconds if seconds <= _SIGNAL_MOST_S else _SIGNAL_S)


def shrinks(script: str) -> bool:
    """Whether the job goes on without the nodes that it loses."""
    return _SHRINKS.search(script) is not None
