"""The terminal's keys, read while a picture is shown."""

from __future__ import annotations

import contextlib
import os
import select
import sys
import time
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def pressed() -> Iterator[Callable[[float], str]]:
    """A function that waits for so many seconds and returns the keys that were pressed meanwhile. Ctrl-C still
    interrupts. Without a terminal as stdin there are no keys."""
    if not sys.stdin or not sys.stdin.isatty():
        yield _slept
        return
    import termios
    import tty

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor)
        yield lambda seconds: _read(descriptor, seconds)
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _slept(seconds: float) -> str:
    time.sleep(seconds)
    return ""


def _read(descriptor: int, seconds: float) -> str:
    if not select.select([descriptor], [], [], seconds)[0]:
        return ""
    return os.read(descriptor, 64).decode(errors="replace")
