"""Ends the programs of this job's ranks on this node, and returns when they have ended: SIGTERM, and SIGKILL 5 s later.

The ranks' own processes stay until their launcher ends them. A launcher ends all ranks when the first one has ended,
most of them with SIGKILL: srun at once if it gets SIGTERM itself (_srun_signal_mgr in Slurm's srun_job.c), mpirun and
horovodrun after a moment.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress

from gpucluster_job import ourselves
from gpucluster_job.ranks import program, signals

LONGEST_S = program.GRACE_S + 1.0


def main(words: list[str]) -> int:
    end(f"{ourselves.folder()}/lib/gpucluster_job", LONGEST_S)
    return 0


def end(package: str, longest_s: float) -> None:
    """`package`: the folder of this package as the command lines of the ranks' own processes have it."""
    ranks = list(signals.ranks(package))
    for rank in ranks:
        with suppress(ProcessLookupError):
            os.kill(rank, program.END)
    until = time.monotonic() + longest_s
    while not all(map(has_ended, ranks)) and time.monotonic() < until:
        time.sleep(0.05)


def has_ended(rank: int) -> bool:
    try:
        with open(f"/proc/{rank}/comm", encoding="ascii") as file:
            return file.read().strip() == program.STAYS
    except OSError:
        return True
