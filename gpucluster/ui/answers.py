"""Keeps what the cluster last said: many tabs are one call, and while the head node is away, old news stay."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from gpucluster.errors import GpuClusterError

MOST = 120
"""How many answers are kept. A page that is open for a day may ask for many jobs."""

Value = TypeVar("Value")


@dataclass(frozen=True)
class Answer(Generic[Value]):
    value: Value | None = None
    at_s: float = 0.0
    """When the value was read, in Unix seconds."""
    problem: str = ""
    """Why there is no newer value, or none at all; a sentence."""
    hint: str = ""


@dataclass
class _Place:
    answer: Answer[Any] = field(default_factory=Answer)
    asked_s: float = float("-inf")
    """When it was last asked for, with or without success, in seconds of the monotonic clock."""
    turn: threading.Lock = field(default_factory=threading.Lock)


class Answers:
    def __init__(self, most: int = MOST) -> None:
        self._places: OrderedDict[Hashable, _Place] = OrderedDict()
        self._lock, self._most = threading.Lock(), most

    def ask(self, key: Hashable, fresh_s: float, read: Callable[[], Value]) -> Answer[Value]:
        """Reads again if the last attempt is older than `fresh_s`. Of several threads one reads; the others get the
        earlier answer, or wait if there is none."""
        place = self._place(key)
        known = place.asked_s > float("-inf")
        if not place.turn.acquire(blocking=not known):
            return place.answer
        try:
            if time.monotonic() - place.asked_s >= fresh_s:
                place.answer, place.asked_s = _read(read, place.answer), time.monotonic()
            return place.answer
        finally:
            place.turn.release()

    def known(self, key: Hashable) -> Answer[Any] | None:
        """What there is without asking. None: nothing yet."""
        with self._lock:
            place = self._places.get(key)
        return place.answer if place and place.asked_s > float("-inf") else None

    def forget(self, key: Hashable) -> None:
        """The next `ask` reads."""
        with self._lock:
            self._places.pop(key, None)

    def clear(self) -> None:
        with self._lock:
            self._places.clear()

    def _place(self, key: Hashable) -> _Place:
        with self._lock:
            place = self._places.setdefault(key, _Place())
            self._places.move_to_end(key)
            while len(self._places) > self._most:
                self._places.popitem(last=False)
            return place


def _read(read: Callable[[], Value], before: Answer[Value]) -> Answer[Value]:
    try:
        return Answer(read(), time.time())
    except GpuClusterError as error:
        return replace(before, problem=error.message, hint=error.hint or "")
