"""Signals the programs of this job's ranks on this node and, as Slurm does, none of the processes that they have
started.

usage: signal USR1
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Iterator

from gpucluster_job import ourselves

RANKS = ("worker", "chief")
"""The roles of processes that are no servers."""


def main(words: list[str]) -> int:
    number = signal.Signals[f"SIG{words[1]}"]
    for program in programs(f"{ourselves.folder()}/lib/gpucluster_job"):
        with suppress(ProcessLookupError):
            os.kill(program, number)
    return 0


def programs(package: str) -> Iterator[int]:
    """The processes that ranks have started: each leads its own session."""
    for rank in ranks(package):
        with suppress(OSError):
            yield from (child for child in children(rank) if os.getsid(child) == child)


def ranks(package: str) -> Iterator[int]:
    """The processes beside the programs."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError):
            words = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
            if is_rank(words, package):
                yield int(process.name)


def children(process: int) -> list[int]:
    """Raises OSError if it has ended."""
    return [int(each) for each in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def is_rank(words: list[str], package: str) -> bool:
    """Servers and schedulers do not get the signal."""
    if len(words) < 5 or words[1:3] != ["-IS", package]:
        return False
    return words[3] in ("rank", "mpi-rank", "sagemaker-rank") or (words[3] == "role" and words[4] in RANKS)
