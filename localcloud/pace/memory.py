"""What the cloud has done and does not show yet."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any, TypeVar

from localcloud.pace.clock import Clock

Key = tuple[str, str]  # of what kind, whose
T = TypeVar("T")


@dataclass
class _Old:
    value: Any
    until: float


class Memory:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._old: dict[Key, _Old] = {}
        self._lock = threading.Lock()

    def keep(self, key: Key, value: Any, seconds: float) -> None:
        """Go on showing `value`, or what is shown instead of it already."""
        with self._lock:
            held = self._held(key)
            until = self._clock.now() + seconds
            self._old[key] = _Old(held.value, max(held.until, until)) if held else _Old(value, until)

    def replace(self, key: Key, value: Any, seconds: float) -> None:
        """Show `value` from now on, for `seconds`, whatever was shown."""
        with self._lock:
            self._old[key] = _Old(value, self._clock.now() + seconds)

    def seen(self, key: Key, now: T) -> T:
        """What is shown; `now` is what it is."""
        if not self._old:
            return now
        with self._lock:
            held = self._held(key)
            shown: T = held.value if held else now
            return shown

    def _held(self, key: Key) -> _Old | None:
        held = self._old.get(key)
        if held and held.until <= self._clock.now():
            del self._old[key]
            return None
        return held
