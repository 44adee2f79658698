"""Asks Linux to signal a process when its parent dies."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def end_with_parent(number: int = signal.SIGTERM) -> None:
    """This process gets the signal when its parent dies; a program that it executes gets it too.

    horovodrun, when it ends ranks that are just starting, can kill a rank's parent and miss the rank. The second check
    covers a parent that died before the request.
    """
    parent = os.getppid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0)
    if parent != os.getppid() or parent == 1:
        sys.exit(128 + signal.SIGTERM)
