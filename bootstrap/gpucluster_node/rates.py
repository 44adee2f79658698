"""AWS's rate limits: a number of calls of a kind at once, and a number a second after that."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable

LONGEST_PAUSE_S = 30.0


class TokenBucket:
    """Makes each caller wait until AWS's own bucket should have a token for it. Any thread may call."""

    def __init__(
        self,
        size: int,
        per_s: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._size, self._per_s, self._clock, self._sleep = size, per_s, clock, sleep
        self._lock = threading.Lock()
        self._tokens, self._filled_at = float(size), clock()

    def take(self) -> None:
        """A negative number counts tokens for which callers already wait."""
        with self._lock:
            now = max(self._clock(), self._filled_at)
            self._tokens = min(self._size, self._tokens + (now - self._filled_at) * self._per_s) - 1
            self._filled_at = now
            wait_s = -self._tokens / self._per_s
        if wait_s > 0:
            self._sleep(wait_s)


def pause_s(failures: int) -> float:
    """The pause after so many failures in a row. It is random, so that callers who failed together do not retry
    together."""
    return random.uniform(0.5, 1.0) * min(2.0**failures, LONGEST_PAUSE_S)
