"""Virtual time for threads: a sleeping thread wakes at its time, and time passes only while all threads sleep or wait.

Whether a thread waits is seen from the function that it is in. One that waits for a lock whose owner sleeps cannot be
told so from one that works: time then goes on when no thread has used a processor, or waited for one, for a while.
"""

from __future__ import annotations

import heapq
import itertools
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

from localcloud.pace.clock import Clock

_LOOK_S = 0.0002
_STUCK_S = 0.1
_NOISE_S = 0.001
_TASKS = Path("/proc/self/task")
_WAITS = {
    ("threading.py", "wait"),
    ("threading.py", "_wait_for_tstate_lock"),
    ("thread.py", "_worker"),
}


class Stopped(BaseException):
    """Raised in threads that still sleep when the clock stops."""


class VirtualClock(Clock):
    """Seconds since its making. `run` moves it on; `sleep` belongs to other threads."""

    def __init__(self) -> None:
        super().__init__()
        self._at = 0.0
        self._sleepers: list[tuple[float, int, threading.Lock]] = []
        self._order = itertools.count()
        self._lock = threading.Lock()
        self._over = False
        self._woken = 0  # threads that were woken and do not run yet

    def now(self) -> float:
        return self._at

    def sleep(self, seconds: float) -> None:
        gate = threading.Lock()
        gate.acquire()
        with self._lock:
            if self._over:
                raise Stopped
            heapq.heappush(self._sleepers, (self._at + max(seconds, 0.0), next(self._order), gate))
        gate.acquire()
        self._go_on()
        if self._over:
            raise Stopped

    def run(self, until: Callable[[], bool], limit_s: float) -> bool:
        """Lets time pass until a condition is true; False if it is not true within the given seconds."""
        end = self._at + limit_s
        with self._counted_waiters():
            while True:
                self._wait_until_idle()
                if until():
                    return True
                with self._lock:
                    if not self._sleepers or self._sleepers[0][0] > end:
                        self._at = end
                        return False
                    at, _, gate = heapq.heappop(self._sleepers)
                    self._at = max(self._at, at)
                    self._woken += 1
                gate.release()

    def stop(self) -> None:
        with self._lock:
            self._over = True
            sleepers, self._sleepers = self._sleepers, []
        for _, _, gate in sleepers:
            gate.release()

    def _go_on(self) -> None:
        with self._lock:
            self._woken -= 1

    def _wait_until_idle(self) -> None:
        since, before = time.monotonic(), _used_by_others_s()
        while not self._is_idle():
            time.sleep(_LOOK_S)
            used = _used_by_others_s()
            if used - before > _NOISE_S or _others_would_run():
                since, before = time.monotonic(), used
            elif time.monotonic() - since > _STUCK_S:
                return

    def _is_idle(self) -> bool:
        with self._lock:
            if self._woken:
                return False
            asleep = len(self._sleepers)
        me = threading.get_ident()
        for thread, frame in sys._current_frames().items():
            if thread == me:
                continue
            if frame.f_code is VirtualClock.sleep.__code__:
                asleep -= 1
            elif not _waits(frame):
                return False
        return asleep == 0

    @contextmanager
    def _counted_waiters(self) -> Iterator[None]:
        """Also patches conditions, from which futures and events are built."""
        wait, notify = threading.Condition.wait, threading.Condition.notify

        def counted_notify(condition: Any, n: int = 1) -> None:
            with self._lock:
                self._woken += min(n, len(condition._waiters))
            notify(condition, n)

        def counted_wait(condition: Any, timeout: float | None = None) -> bool:
            told = wait(condition, timeout)
            if told:
                self._go_on()
            return told

        threading.Condition.notify = counted_notify  # type: ignore[method-assign, assignment]
        threading.Condition.wait = counted_wait  # type: ignore[method-assign, assignment]
        try:
            yield
        finally:
            threading.Condition.wait, threading.Condition.notify = wait, notify  # type: ignore[method-assign]


def _used_by_others_s() -> float:
    """CPU time that the other threads have used."""
    return time.process_time() - time.thread_time()


def _others_would_run() -> bool:
    """Whether another thread runs, or waits for a processor on a busy machine."""
    me = str(threading.get_native_id())
    for task in os.listdir(_TASKS):
        if task != me:
            with suppress(OSError):  # it has ended
                if (_TASKS / task / "stat").read_text().rpartition(")")[2].split()[0] in "RD":
                    return True
    return False


def _waits(frame: FrameType) -> bool:
    name = (frame.f_code.co_filename.rpartition("/")[2], frame.f_code.co_name)
    if name == ("thread.py", "_worker"):
        return not frame.f_locals["work_queue"].qsize()
    return name in _WAITS
