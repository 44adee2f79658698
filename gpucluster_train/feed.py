"""How long training waits for its data: `Feed` passes on the batches of any loader, and counts.

feed = Feed(loader)
for epoch in range(epochs):
    for pictures, labels in feed: ...
    print(feed.report())                # data 38 % of 12.4 s
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, Protocol, TypeVar

from gpucluster_train.feed_record import record
from gpucluster_train.feed_trial import trial

Batch = TypeVar("Batch")


class Feed(Generic[Batch]):
    """Each pass over it is a pass over `batches`: a loader, or a function that begins a pass, if the loader is a
    generator. The figures are those of the last pass, or of the current one so far. In a run of `gpucluster bench
    --feed`, which makes several passes, it measures, and then ends the program."""

    def __init__(
        self,
        batches: Iterable[Batch] | Callable[[], Iterable[Batch]],
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._batches: Iterable[Batch] = batches if isinstance(batches, Iterable) else Passes(batches)
        self._clock = clock
        self._waits: Waits = HostWaits(clock)
        self._began = self._ended = self._counted_to = 0.0
        self._waited_s = 0.0
        self._runs = False
        self._record = record()

    def __len__(self) -> int:
        return len(self._batches)  # type: ignore[arg-type]  # a loader without a length raises TypeError, as it should

    def __iter__(self) -> Iterator[Batch]:
        measured = trial()
        return measured.batches(self._batches) if measured else self._pass()

    def _pass(self) -> Iterator[Batch]:
        self._began = self._counted_to = self._clock()
        self._waited_s, self._runs = 0.0, True
        self._waits = waits(self._clock)
        try:
            batches = self._next(lambda: iter(self._batches))
            while True:
                try:
                    batch = self._next(lambda: next(batches))
                except StopIteration:
                    return
                self._count()
                yield batch
        finally:
            self._ended, self._runs = self._clock(), False
            self._count()

    def _next(self, call: Callable[[], Any]) -> Any:
        self._waits.begin()
        try:
            return call()
        finally:
            self._waits.end()

    def _count(self) -> None:
        waited_s, until = self._waits.taken(), self._began + self.seconds
        self._waited_s += waited_s
        if self._record:
            self._record.add(waited_s, until - self._counted_to)
        self._counted_to = until

    @property
    def seconds(self) -> float:
        """How long the pass takes, with training."""
        return (self._clock() if self._runs else self._ended) - self._began

    @property
    def waited_s(self) -> float:
        self._count()
        return self._waited_s

    @property
    def share(self) -> float:
        """The part of the time, 0 to 1, in which training waited for a batch."""
        seconds = self.seconds
        return min(1.0, self.waited_s / seconds) if seconds > 0 else 0.0

    def report(self) -> str:
        if not self._began:  # no pass, or a run of `bench --feed`
            return "data not counted"
        return f"data {100 * self.share:.0f} % of {self.seconds:.1f} s"


class Passes(Generic[Batch]):
    def __init__(self, begin: Callable[[], Iterable[Batch]]) -> None:
        self._begin = begin

    def __iter__(self) -> Iterator[Batch]:
        return iter(self._begin())


class Waits(Protocol):
    def begin(self) -> None: ...

    def end(self) -> None: ...

    def taken(self) -> float:
        """The seconds of the waits that have been counted since the last call."""


class HostWaits:
    """Counts the time in which the program waited."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._since = self._seconds = 0.0

    def begin(self) -> None:
        self._since = self._clock()

    def end(self) -> None:
        self._seconds += self._clock() - self._since

    def taken(self) -> float:
        seconds, self._seconds = self._seconds, 0.0
        return seconds


class GpuWaits:
    """Counts the time in which the GPU had nothing to do. A program hands steps to its GPU in advance, and may then
    wait for the next batch while the GPU still works: that costs nothing.

    The GPU itself takes the time of both events when it reaches them: after the last step that was handed over, and
    when the batch is there (CUDA Runtime API, cudaEventRecord and cudaEventElapsedTime).
    """

    def __init__(self, event: Callable[..., Any]) -> None:
        """`event`: torch.cuda.Event."""
        self._event = event
        self._since: Any = None
        self._open: deque[tuple[Any, Any]] = deque()

    def begin(self) -> None:
        self._since = self._now()

    def end(self) -> None:
        self._open.append((self._since, self._now()))

    def _now(self) -> Any:
        event = self._event(enable_timing=True)
        event.record()
        return event

    def taken(self) -> float:
        milliseconds = 0.0
        while self._open and self._open[0][1].query():  # events complete in their order
            since, until = self._open.popleft()
            milliseconds += since.elapsed_time(until)
        return milliseconds / 1000


def waits(clock: Callable[[], float]) -> Waits:
    """This package imports no framework: a program that trains with torch on a GPU has done so before."""
    torch = sys.modules.get("torch")
    on_gpu = torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized()
    return GpuWaits(torch.cuda.Event) if torch is not None and on_gpu else HostWaits(clock)
