"""Lets the threads of Gloo finish before Python ends: a rank that trained without GPUs could end with SIGABRT.

Such a thread frees the tensors of a collective after the collective has completed, and takes Python's lock for that.
CPython before 3.14 ends a thread that waits for the lock while Python ends, inside a destructor that may not throw:
"terminate called without an active exception" (https://github.com/pytorch/pytorch/pull/179291, closed unmerged).
So Python's last step here is to sleep, without the lock, until those threads sleep too.

torch calls `wait_at_exit` at the end of its import, as every entry point of the group `torch.backends`
(_import_device_backends in torch/__init__.py, since 2.5). The job's lib/ has it: gpucluster/job/script.py.
"""

from __future__ import annotations

import atexit
import time
from contextlib import suppress
from pathlib import Path

GLOO = "pt_gloo_runloop"
"""A thread's name as the kernel shows it. ProcessGroupGloo::runLoop in ProcessGroupGloo.cpp sets it."""
LOOK_S = 0.01
"""Twice as long as a thread waits for the lock before it asks for it again (sys.getswitchinterval)."""
LONGEST_S = 10.0
"""A collective that other ranks never join does not complete."""


def wait_at_exit() -> None:
    atexit.register(wait)


def wait() -> None:
    until, now = time.monotonic() + LONGEST_S, _switches()
    before: dict[str, str] = {}
    while now != before and time.monotonic() < until:
        time.sleep(LOOK_S)
        before, now = now, _switches()


def _switches() -> dict[str, str]:
    """What each of the threads has waited for so far; another value at each look at one that runs."""
    found = {}
    for task in Path("/proc/self/task").glob("*"):
        with suppress(OSError):  # the thread has ended
            if (task / "comm").read_text().strip() == GLOO:
                lines = (task / "status").read_text().splitlines()
                status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
                sleeps = status["State"].startswith("S")
                found[task.name] = status["voluntary_ctxt_switches"] if sleeps else str(time.monotonic())
    return found
