"""Runs commands, and identifies processes by id and start time."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from localcloud.errors import LocalCloudError


class MachineError(LocalCloudError):
    """A command of the host failed; the message contains its output."""


def run(argv: Sequence[str], *, stdin: str | None = None, check: bool = True, timeout_s: float = 60.0) -> str:
    """The standard output of a command. Raises MachineError, with the command's errors, unless `check` is off."""
    done = subprocess.run(argv, input=stdin, capture_output=True, text=True, timeout=timeout_s, check=False)
    if check and done.returncode:
        words = (done.stderr or done.stdout).strip()
        raise MachineError(f"{' '.join(argv)} failed with status {done.returncode}: {words}")
    return done.stdout


def start_time(pid: int) -> int | None:
    """When a process started, in clock ticks since boot: with its id, unique. None if there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    state, *rest = stat.rpartition(")")[2].split()
    return None if state == "Z" else int(rest[18])


def is_running(pid: int, started: int) -> bool:
    return start_time(pid) == started


def send(pid: int, started: int, signal_number: int) -> None:
    if is_running(pid, started):
        try:
            os.kill(pid, signal_number)
        except ProcessLookupError:
            return


def end(pid: int, started: int, *, grace_s: float = 2.0) -> bool:
    """Asks a process to end, then kills it; False if it was not running."""
    if not is_running(pid, started):
        return False
    send(pid, started, signal.SIGTERM)
    if not wait_gone(pid, started, grace_s):
        send(pid, started, signal.SIGKILL)
        wait_gone(pid, started, grace_s)
    return True


def wait_gone(pid: int, started: int, timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while is_running(pid, started):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
