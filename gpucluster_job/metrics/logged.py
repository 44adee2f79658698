"""Reads what ranks log with `gpucluster_train.log`: each writes a file of its own, RANK.jsonl, because ranks of several
nodes must not append to one file of a file server (open(2): O_APPEND on NFS)."""

from __future__ import annotations

import json
import math
import os
import stat
from contextlib import suppress
from typing import Any, Iterator

from gpucluster_job.metrics.expressions import MOST_STEP
from gpucluster_job.metrics.store import Store

CHUNK_BYTES = 2**20
LINE_BYTES = 2**16
"""A longer line is none."""
MOST_FILES = 10_000


class Logged:
    def __init__(self, folder: str, store: Store) -> None:
        self._folder, self._store = folder, store
        self._offsets: dict[int, int] = {}

    def read(self) -> bool:
        """Reads a chunk of each file that has grown. Returns whether there was one. An NFS client may list a folder,
        and the size of another node's file, as they were half a minute ago."""
        grown = False
        for rank, size in list(self._sizes()):
            if size > self._offsets.get(rank, 0):
                grown = self._read(rank) or grown
        return grown

    def finish(self, world_size: int) -> bool:
        """The same for all files by their names: opening one asks the file server."""
        return any([self._read(rank) for rank in range(min(world_size, MOST_FILES))])

    def _sizes(self) -> Iterator[tuple[int, int]]:
        with suppress(OSError), os.scandir(self._folder) as found:
            for entry in found:
                rank, _, ending = entry.name.partition(".")
                if ending == "jsonl" and rank.isdecimal() and len(rank) < 10 and len(self._offsets) < MOST_FILES:
                    with suppress(OSError):
                        yield int(rank), entry.stat(follow_symlinks=False).st_size

    def _read(self, rank: int) -> bool:
        data = self._chunk(f"{self._folder}/{rank}.jsonl", self._offsets.get(rank, 0))
        end = data.rfind(b"\n") + 1
        if not end and len(data) >= CHUNK_BYTES:
            end = len(data)
        self._offsets[rank] = self._offsets.get(rank, 0) + end
        for line in data[:end].split(b"\n"):
            if 0 < len(line) < LINE_BYTES:
                self._take(rank, line)
        return end > 0

    def _chunk(self, path: str, offset: int) -> bytes:
        with suppress(OSError):
            opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
            try:
                return os.pread(opened, CHUNK_BYTES, offset) if stat.S_ISREG(os.fstat(opened).st_mode) else b""
            finally:
                os.close(opened)
        return b""

    def _take(self, rank: int, text: bytes) -> None:
        try:
            line = json.loads(text)
            at, step, values = float(line["time_s"]), line.get("step"), dict(line["values"])
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
            return  # a program has damaged it
        if math.isfinite(at):
            is_step = isinstance(step, int) and abs(step) <= MOST_STEP
            numbers = {str(name): found for name, found in _numbers(values)}
            self._store.add(numbers, time_s=at, step=step if is_step else None, rank=rank, logged=True)


def _numbers(values: dict[Any, Any]) -> Iterator[tuple[Any, float]]:
    for name, value in values.items():
        with suppress(OverflowError):
            if value is None:
                yield name, math.nan
            elif isinstance(value, (int, float)) and not isinstance(value, bool):
                yield name, float(value)
