"""Repeats a command while slurmctld does not answer, for example because the head node is being replaced."""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Callable
from typing import TypeVar

from gpucluster_node import slurm

log = logging.getLogger("health")
LONGEST_S = 3600.0
"""How long a command is repeated. slurmstepd of Slurm 23.11 reports the end of a job's script for as long (mgr.c:
MAX_RETRY), and Slurm forgets a job an hour after its end (MinJobAge)."""
PAUSES_S = (1.0, 2.0, 5.0, 10.0, 20.0)
LONGEST_PAUSE_S = 30.0
Said = TypeVar("Said")


def until_answered(do: Callable[[], Said], what: str) -> Said:
    """Raises UnansweredError after LONGEST_S, and SlurmError at once if slurmctld refuses the command."""
    until = time.monotonic() + LONGEST_S
    for pause_s in itertools.chain(PAUSES_S, itertools.repeat(LONGEST_PAUSE_S)):
        try:
            return do()
        except slurm.UnansweredError as error:
            log.warning("%s: %s", what, error)
            if time.monotonic() > until:
                raise
        time.sleep(pause_s)
    raise AssertionError("the pauses do not end")
