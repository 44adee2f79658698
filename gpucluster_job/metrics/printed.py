"""Matches the expressions of `metrics` in the lines of the job's log, while it grows."""

from __future__ import annotations

import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Iterator

from gpucluster_job.log import LABEL_BYTES, LONGEST_BYTES, Splitter, say
from gpucluster_job.metrics.deadline import Deadline
from gpucluster_job.metrics.expressions import (
    STEP,
    Expression,
    NoNumber,
    PartOfNumber,
    has_decimal_comma,
    labelled,
    whole,
)
from gpucluster_job.metrics.store import Store

CHUNK_BYTES = 2**20
TICK_S = 0.1
EXPRESSION_S = 5.0
BYTES_PER_S = 4_000_000
"""How much CPU time an expression may take: more for a large log, of which two expressions read 15 MB in a second."""
MOST_RANKS = 10_000


class TooSlow(Exception):
    """The current expression has had its time."""


class TimeIsUp(Exception):
    """For all expressions: the job ends."""


class Printed:
    def __init__(
        self, log: Path, start: int, expressions: dict[str, Expression], store: Store, deadline: Deadline
    ) -> None:
        self._log, self._offset, self._store, self._deadline = log, start, store, deadline
        self._read_bytes = 0
        self._splitter = Splitter(LONGEST_BYTES + LABEL_BYTES)
        self._expressions = expressions
        self._steps: dict[int, int | None] = {}
        self._skipped: set[str] = set()
        self._current = ""
        self._ticked = 0.0
        self.lost: set[str] = set()
        self.spent: dict[str, float] = {name: 0.0 for name in expressions}
        signal.signal(signal.SIGALRM, self._tick)

    def read(self) -> bool:
        """Reads a chunk. Returns whether there was one."""
        if not self._expressions:
            return False
        data = self._chunk()
        if data:
            self._match(self._splitter.take(data))
        return bool(data)

    def finish(self) -> None:
        """The last line may have no end."""
        self._match(self._splitter.cut())

    def _chunk(self) -> bytes:
        """Opened each time: it may be on a file server, which then says how long the file is."""
        with suppress(OSError), open(self._log, "rb") as file:
            self._offset = min(self._offset, _size(file))  # a program has shortened its log
            file.seek(self._offset)
            data = file.read(CHUNK_BYTES)
            self._offset += len(data)
            self._read_bytes += len(data)
            return data
        return b""

    def _match(self, lines: list[bytes]) -> None:
        now, self._ticked = time.time(), time.process_time()
        signal.setitimer(signal.ITIMER_REAL, TICK_S, TICK_S)
        try:
            for rank, text in labelled(line.decode(errors="replace") for line in lines):
                self._line(rank, text, now)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

    def _line(self, rank: int, text: str, now: float) -> None:
        values: dict[str, float] = {}
        step = None
        for name, value, at in self._found(rank, text):
            values[name] = value
            step = at if at is not None else step
        if not values:
            return
        if STEP in values and (len(self._steps) < MOST_RANKS or rank in self._steps):
            self._steps[rank] = whole(values[STEP])
        step = self._steps.get(rank) if step is None else step
        self._store.add(values, time_s=now, step=step, rank=rank, logged=False)

    def _found(self, rank: int, text: str) -> Iterator[tuple[str, float, int | None]]:
        for name, expression in tuple(self._expressions.items()):
            if not self._store.counts(name, rank):
                continue
            try:
                try:
                    self._current = name
                    found = expression.find(text)
                finally:
                    self._current = ""
            except NoNumber as captured:
                self._skip(name, captured)
            except TooSlow:
                self._lose(name)
            else:
                if found:
                    yield (name, *found)

    def _skip(self, name: str, why: NoNumber) -> None:
        if name in self._skipped:
            return
        self._skipped.add(name)
        is_part, captured = isinstance(why, PartOfNumber), str(why)
        what = "is captured without its exponent" if is_part else "is not a number"
        said = f"warning: metrics: {name}: {captured[:40]!r} {what} and is skipped, as further ones will be"
        hint = r"; (\S+) captures all of it" if is_part else "; print a decimal point"
        say(said + (hint if is_part or has_decimal_comma(captured) else ""))

    def _lose(self, name: str) -> None:
        del self._expressions[name]
        self.lost.add(name)
        if not self._store.has_logged(name):
            self._store.forget(name)
        took = f"its expression took {self.spent[name]:.1f} s of CPU time, at most {self._limit_s():.0f} s are allowed"
        say(f"warning: metrics: {name} is lost: {took}; simplify its repetitions, such as (a*)*")

    def _limit_s(self) -> float:
        return EXPRESSION_S + self._read_bytes / BYTES_PER_S

    def _tick(self, number: int, frame: Any) -> None:
        """`re` looks for signals while it searches. The CPU time since the last tick is the current expression's."""
        now = time.process_time()
        took, self._ticked = now - self._ticked, now
        name = self._current
        if not name:
            return
        self.spent[name] += took
        if self.spent[name] > self._limit_s():
            raise TooSlow
        if self._deadline.look() and self._deadline.has_passed:
            raise TimeIsUp


def _size(file: BinaryIO) -> int:
    return file.seek(0, 2)
