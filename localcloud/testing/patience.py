"""How long tests wait: in seconds of an idle machine.

A limit finds tests that hang. On a busy machine everything takes longer, by the number of programs for each core, and
nothing hangs. So the seconds of a limit are longer by the same factor.
"""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

LOAD = Path("/proc/loadavg")


def slowness(load: Path = LOAD) -> float:
    """Programs that want to run for each core, now or in the last minute; at least 1."""
    last_minute, _, _, now, *_ = load.read_text().split()
    wanting = max(float(last_minute), int(now.partition("/")[0]))
    return max(1.0, wanting / (os.cpu_count() or 1))


class QuietClock:
    """Seconds that an idle machine would have needed, if it is called regularly."""

    def __init__(self, load: Path = LOAD) -> None:
        self._load = load
        self._seen, self._at = time.monotonic(), 0.0
        self._lock = threading.Lock()

    def __call__(self) -> float:
        with self._lock:
            now = time.monotonic()
            self._at += (now - self._seen) / slowness(self._load)
            self._seen = now
            return self._at


seconds = QuietClock()


def stretched(limit_s: float) -> float:
    """Converts a limit for an idle machine to one for this machine in its current state."""
    return limit_s * slowness()


def wait_for(what: str, probe: Callable[[], Any], limit_s: float, interval_s: float = 1.0) -> Any:
    """The result of `probe` as soon as it is true."""
    limit = seconds() + limit_s
    while not (answer := probe()):
        assert seconds() < limit, f"{what}: not within {limit_s} s of a quiet machine"
        time.sleep(interval_s)
    return answer


def pytest_configure() -> None:
    """As a plugin, extends the time-outs of subprocess in the same way, for all tests of this process."""
    subprocess._time = seconds  # type: ignore[attr-defined]
