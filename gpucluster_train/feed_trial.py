"""The three runs of `gpucluster bench --feed`, as DS-Analyzer makes them (Mohan et al., "Analyzing and Mitigating Data
Stalls in DNN Training", VLDB 2021): training on data that is there already, the loader without training, and both.

Each passes the same number of batches on every rank, because ranks wait for each other in every step. It then ends the
program, whatever number of epochs that would train.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from itertools import repeat
from pathlib import Path
from typing import Any

from gpucluster_train.channels import ChannelError, channel, names
from gpucluster_train.feed_record import record

MODE = "GPUCLUSTER_FEED"
RESIDENT, LOADER, REAL = "resident", "loader", "real"
WARM_UP, MEASURED = 20, 100
"""Batches: first those that start workers, fill queues and choose kernels, then those that count."""


class Trial:
    def __init__(self, mode: str, clock: Callable[[], float] = time.perf_counter) -> None:
        self._mode, self._clock = mode, clock
        self._passed = self._samples = 0
        self._unit = "samples"
        self._since = 0.0

    def batches(self, source: Iterable[Any]) -> Iterator[Any]:
        """Raises SystemExit after the last batch."""
        if self._mode == LOADER:
            self._drain(source)
        for batch in self._resident(source) if self._mode == RESIDENT else source:
            if speed := self._count(batch):
                self._end({"per_s": speed})
            yield batch

    @staticmethod
    def _resident(source: Iterable[Any]) -> Iterator[Any]:
        for first in source:
            return repeat(first)
        return iter(())

    def _drain(self, source: Iterable[Any]) -> None:
        """Twice: at first with cold files, where a channel names them, then with what this node keeps of them. Once if
        the source cannot begin again."""
        begins_again = not isinstance(source, Iterator)
        found = {"cold_per_s": self._drained(source)} if begins_again and let_go() else {}
        self._passed = 0
        self._end({**found, "per_s": self._drained(source)})

    def _drained(self, source: Iterable[Any]) -> float:
        while True:
            before = self._passed
            for batch in source:
                if speed := self._count(batch):
                    return speed
            if self._passed == before:
                return self._of_fewer(before)

    def _of_fewer(self, passed: int) -> float:
        """Raises SystemExit if too few batches have passed."""
        if passed <= WARM_UP:
            again = "Feed takes the loader itself, or a function that begins a pass, so that it can begin again"
            sys.exit(
                f"error: {MODE}={self._mode}: the loader gave {passed} batches, {WARM_UP} are for warm-up; {again}"
            )
        return self._speed()

    def _count(self, batch: Any) -> float:
        """Samples, or batches, in a second; 0 until enough have passed."""
        if self._passed == WARM_UP:
            synchronize()
            self._since, self._samples = self._clock(), 0
        if self._passed == WARM_UP + MEASURED:
            return self._speed()
        size = samples(batch)
        if size is None:
            self._unit = "batches"
        self._samples += size or 1
        self._passed += 1
        return 0.0

    def _speed(self) -> float:
        synchronize()
        return self._samples / max(self._clock() - self._since, 1e-9)

    def _end(self, found: Mapping[str, float]) -> None:
        shown = ", ".join(f"{value:.1f} {self._unit}/s{' cold' * (name != 'per_s')}" for name, value in found.items())
        print(f"feed: {self._mode}: {shown}; the program ends here, because {MODE}={self._mode}", flush=True)
        if own := record():
            own.trial = {"mode": self._mode, "unit": self._unit, **found}
            own.write()
        sys.exit(0)


@lru_cache(maxsize=None)
def trial() -> Trial | None:
    """None except in a run of `gpucluster bench --feed`. The passes of all epochs count together."""
    mode = os.environ.get(MODE)
    if not mode:
        return None
    if mode not in (RESIDENT, LOADER, REAL):
        sys.exit(f"error: {MODE} must be {RESIDENT}, {LOADER} or {REAL}, got {mode!r}")
    return Trial(mode)


def samples(batch: Any) -> int | None:
    """The length of the first tensor in a batch: a tensor, or tuples, lists and mappings of them, or MXNet's DataBatch.
    None if there is none."""
    if shape := getattr(batch, "shape", None):
        return int(shape[0])
    inside = list(batch.values()) if isinstance(batch, Mapping) else getattr(batch, "data", batch)
    found = map(samples, inside) if isinstance(inside, (tuple, list)) else ()
    return next((size for size in found if size is not None), None)


def synchronize() -> None:
    """The GPU has done all that was handed to it."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.synchronize()


def let_go() -> bool:
    """Makes this node forget what it has read of the channels' files for this rank. False if there are no such files:
    streams from S3, or a program that reads a folder."""
    found = False
    try:
        for name in names():
            own = channel(name)
            for place in own.shards() if own.mode != "stream" else ():
                found = forget(Path(place)) or found
    except (ChannelError, OSError):
        return found
    return found


def forget(path: Path) -> bool:
    """posix_fadvise(2), POSIX_FADV_DONTNEED: needs no privilege, but clean pages."""
    files = [path] if path.is_file() else [each for each in path.rglob("*") if each.is_file()]
    for each in files:
        with suppress(OSError), each.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return bool(files)
