"""Waits for signals and for data at once, by a pipe that every signal writes to."""

from __future__ import annotations

import os
import signal
from typing import Any, Callable, Iterable

Handler = Callable[[int, Any], None]


class Wakeup:
    """For one process, in its main thread. Signal handlers run as usual; reading the pipe only ends a `select`."""

    def __init__(self) -> None:
        self._read, write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)  # with the default handler nothing is written

    def wait(self, others: Iterable[int], timeout_s: float | None) -> list[int]:
        """The file descriptors of `others` that have data or were closed."""
        import select

        ready, _, _ = select.select([self._read, *others], [], [], timeout_s)
        if self._read in ready:
            os.read(self._read, 4096)
        return [each for each in ready if each != self._read]


def handle(numbers: Iterable[int], handler: Handler) -> None:
    for number in numbers:
        signal.signal(number, handler)
