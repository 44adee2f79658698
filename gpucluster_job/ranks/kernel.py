"""What Linux does when a process's parent dies."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def end_with_parent(number: int = signal.SIGTERM) -> None:
    """This process gets the signal when the one that started it dies; a program that it becomes gets it, too.

    horovodrun, ending ranks that are just starting, can kill what started one and miss the rank. The second look is for
    a parent that died before the kernel was asked.
    """
    parent = os.getppid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0)
    if parent != os.getppid() or parent == 1:
        sys.exit(128 + signal.SIGTERM)
