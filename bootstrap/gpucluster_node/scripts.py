"""What the script of a running job says to Slurm, for programs that take the job's node away."""

from __future__ import annotations

import re
from pathlib import Path

from gpucluster_node import slurm

_BYTES = 65536
_SIGNAL = re.compile(r"^#SBATCH --signal=B:(\w+)", re.MULTILINE)
_SHRINKS = re.compile(r"^#SBATCH --no-kill\b", re.MULTILINE)


def text(job: slurm.Running) -> str:
    """Its first lines; empty if it has none, or if it is no file."""
    path = Path(job.script)
    if not path.is_file():
        return ""
    with path.open(errors="replace") as file:
        return file.read(_BYTES)


def signal(script: str) -> str:
    """The signal that the job asked for; empty if none."""
    asked = _SIGNAL.search(script)
    return asked[1] if asked else ""


def shrinks(script: str) -> bool:
    """Whether the job goes on without the nodes that it loses."""
    return _SHRINKS.search(script) is not None
