"""Makes the programs of this job's ranks on this node print where they stand: SIGABRT, at which Python with
PYTHONFAULTHANDLER=1 prints the stack of each thread and ends.

usage: stacks AT    AT: when, in seconds since the epoch
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from resource import RLIMIT_CORE, prlimit
from typing import Iterator

from gpucluster_job import ourselves
from gpucluster_job.ranks import signals

LONGEST_S = 10.0
"""How long it waits for AT: this node's clock may be wrong."""
NO_CORE = (1, 1)
"""The kernel writes no core, not even to a program such as apport, which with a limit of 0 it does (fs/coredump.c)."""


def main(words: list[str]) -> int:
    time.sleep(min(LONGEST_S, max(0.0, float(words[1]) - time.time())))
    for program in signals.programs(f"{ourselves.folder()}/lib/gpucluster_job"):
        for process in list(pythons(program)) or [program]:
            with suppress(OSError, ValueError):
                prlimit(process, RLIMIT_CORE, NO_CORE)
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGABRT)
    return 0


def pythons(program: int) -> Iterator[int]:
    """The program itself if it is Python, or those that a shell script has started. A Python's own children, such as
    the loaders of its data, print nothing."""
    try:
        name = os.path.basename(os.readlink(f"/proc/{program}/exe"))
        children = signals.children(program)
    except OSError:
        return
    if name.startswith("python"):
        yield program
        return
    for child in children:
        yield from pythons(child)
