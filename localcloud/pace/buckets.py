"""Token buckets: a number at once, then a number a second."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from localcloud.pace import figures
from localcloud.pace.clock import Clock

Key = tuple[str, ...]
Demand = tuple[Key, figures.Bucket, int]  # how many tokens of which bucket


@dataclass
class _Level:
    tokens: float
    at: float


class Buckets:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._levels: dict[Key, _Level] = {}
        self._lock = threading.Lock()

    def take(self, demands: list[Demand]) -> bool:
        """Takes all tokens that a call needs, or none."""
        with self._lock:
            levels = [(self._filled(key, bucket), tokens) for key, bucket, tokens in demands]
            if any(level.tokens < tokens for level, tokens in levels):
                return False
            for level, tokens in levels:
                level.tokens -= tokens
            return True

    def _filled(self, key: Key, bucket: figures.Bucket) -> _Level:
        now = self._clock.now()
        level = self._levels.setdefault(key, _Level(bucket.size, now))
        level.tokens = min(level.tokens + (now - level.at) * bucket.per_s, bucket.size)
        level.at = now
        return level
