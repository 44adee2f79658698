"""A guest's kernel log. Guests share this machine's kernel, so each has a pipe as its /dev/kmsg: its journal reads it.

Records have the kernel's form (Documentation/ABI/testing/dev-kmsg): `priority,number,microseconds,-;text`. Nothing
reaches the log of this machine's kernel.
"""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

_ERROR = 3  # KERN_ERR of the facility `kern`, as NVIDIA's driver logs its Xid errors


class KernelLog:
    """The cloud keeps the pipe open while the guest runs: otherwise a program of the guest that opens /dev/kmsg would
    wait for a reader."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._number = 0
        self._pipe: int | None = None

    def open(self) -> None:
        self.path.unlink(missing_ok=True)
        os.mkfifo(self.path, 0o600)
        self._pipe = os.open(self.path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        # One read returns one record, as with the kernel's own device: pipe(2), O_DIRECT
        fcntl.fcntl(self._pipe, fcntl.F_SETFL, os.O_NONBLOCK | os.O_DIRECT)

    def write(self, text: str) -> None:
        """One record for each line. Raises OSError if no program has read the last ones."""
        if self._pipe is None:
            raise OSError("the guest does not run")
        for line in text.splitlines():
            now_us = time.monotonic_ns() // 1000
            os.write(self._pipe, f"{_ERROR},{self._number},{now_us},-;{line}\n".encode())
            self._number += 1

    def close(self) -> None:
        if self._pipe is not None:
            os.close(self._pipe)
        self._pipe = None
        self.path.unlink(missing_ok=True)
