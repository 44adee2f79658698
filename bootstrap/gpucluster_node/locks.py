"""Locks between root's programs: nobody else may hold one, and no program waits for one without limit.

A process that can open a file can hold its lock, also if it may only read it (flock(2)). `lib/locks.sh` does the same
in bash.
"""

from __future__ import annotations

import fcntl
import os
import pwd
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

WAIT_S = 60.0
"""Enough for programs that hold a lock only to read or write a file."""
_PROC = Path("/proc")


class HeldError(TimeoutError):
    """Another program has held the lock for too long."""


def opened(path: Path) -> IO[str]:
    """The lock's file, to read and to append to. Only root may open it, also if an older version made it for all."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    os.fchmod(descriptor, 0o600)
    return os.fdopen(descriptor, "a+")


@contextmanager
def held(path: Path, wait_s: float = WAIT_S) -> Iterator[IO[str]]:
    with opened(path) as file:
        wait(file, path, wait_s)
        yield file


def wait(file: IO[str], path: Path, wait_s: float = WAIT_S) -> None:
    """Takes the lock of an open file, until the file is closed. path: its name, for the error."""
    until = time.monotonic() + wait_s
    while not take(file):
        if time.monotonic() >= until:
            raise HeldError(f"{path} is still locked after {wait_s:g} s, by {holders(file)}; end that process")
        time.sleep(random.uniform(0.01, 0.05))


def take(file: IO[str], how: int = fcntl.LOCK_EX) -> bool:
    """Whether no other program has locked the file. Then this one has, until it closes the file or ends, also if it is
    killed. how: fcntl.LOCK_EX or LOCK_SH."""
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def holders(file: IO[str]) -> str:
    """The processes that hold the file's lock, from /proc/locks: `1: FLOCK  ADVISORY  WRITE 708 00:19:1054 0 EOF`
    (proc_locks(5), https://man7.org/linux/man-pages/man5/proc_locks.5.html). A line with -> is of a process that
    waits."""
    status = os.fstat(file.fileno())
    name = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    lines = [line.split() for line in (_PROC / "locks").read_text().splitlines()]
    pids = [fields[4] for fields in lines if fields[1] == "FLOCK" and fields[5] == name]
    return " and ".join(map(_described, pids)) or "a process that /proc/locks does not show"


def _described(pid: str) -> str:
    """A process's name is its user's text."""
    with suppress(OSError):
        owner = (_PROC / pid).stat().st_uid
        return f"process {pid} of {_user(owner)} ({(_PROC / pid / 'comm').read_text().strip()!a})"
    return f"process {pid}, which has ended, or one that it started"


def _user(uid: int) -> str:
    with suppress(KeyError):
        return pwd.getpwuid(uid).pw_name
    return f"the uid {uid}"
