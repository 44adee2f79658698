"""Changes that the cloud has made and does not show yet."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any, TypeVar

from localcloud.pace.clock import Clock

Key = tuple[str, str]  # of what kind, whose
T = TypeVar("T")


@dataclass(frozen=True)
class _Old:
    value: Any
    until: float


class Memory:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._old: dict[Key, list[_Old]] = {}  # in the order in which they are shown
        self._lock = threading.Lock()

    def keep(self, key: Key, value: Any, seconds: float) -> None:
        """`value` has just been changed: it is shown for that long, after the values that are already waiting."""
        with self._lock:
            held = self._held(key)
            until = max([self._clock.now() + seconds, *(old.until for old in held)])
            self._old[key] = [*held, _Old(value, until)]

    def replace(self, key: Key, value: Any, seconds: float) -> None:
        """Shows `value` from now on, for `seconds`, instead of any other."""
        with self._lock:
            self._old[key] = [_Old(value, self._clock.now() + seconds)]

    def seen(self, key: Key, now: T) -> T:
        """The value to show; `now` is the actual one."""
        if not self._old:
            return now
        with self._lock:
            held = self._held(key)
            shown: T = held[0].value if held else now
            return shown

    def _held(self, key: Key) -> list[_Old]:
        held = [old for old in self._old.get(key, ()) if old.until > self._clock.now()]
        if not held:
            self._old.pop(key, None)
        return held
