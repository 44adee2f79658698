"""Decides when EC2 is asked again for capacity that it lacked: the launches of a partition take turns, with one call in
about 15 s.

ResumePrograms share the time of the next call through a file. When a launch has got instances, even if not for all its
nodes, all others of the partition may call at once.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from gpucluster_node import locks

FOLDER = Path("/run/gpucluster/shortage")
EVERY_S = 15
_BETWEEN_S = (12.0, 17.0)
"""Random, so that clusters whose calls failed at the same time do not repeat them at the same time."""
_waiting: dict[str, dict[int, int]] = {}
"""Partition -> how many nodes each launch of this program must get that waits for its turn."""


class Turns:
    """Of one launch."""

    def __init__(self, partition: str, clock: Callable[[], float]) -> None:
        """clock: the same for all programs, such as time.monotonic; the file is gone after a boot."""
        self._path, self._clock = FOLDER / partition, clock
        self._sizes = _waiting.setdefault(partition, {})

    def failed(self) -> None:
        """A first call that fails does not put off the turn of those that wait."""
        with self._open() as file:
            text = file.read()
            if not text or self._clock() >= float(text):
                self._put_off(file)

    def succeeded(self) -> None:
        self._path.unlink(missing_ok=True)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """While the launch waits."""
        try:
            yield
        finally:
            self._sizes.pop(id(self), None)

    def may_call(self, nodes: int) -> bool:
        """Whether the caller may call EC2 now. If so, no other program may until this call has failed or succeeded.
        nodes: how many the caller must get. Of a program's launches, those of the fewest nodes come first: if EC2 lacks
        capacity for them, it lacks it for the others, and if it has some, all may call at once."""
        self._sizes[id(self)] = nodes
        with self._open() as file:
            text = file.read()
            if not text:
                return True
            if nodes > min(list(self._sizes.values())) or self._clock() < float(text):
                return False
            self._put_off(file)
            return True

    def _put_off(self, file: IO[str]) -> None:
        file.seek(0)
        file.truncate()
        file.write(str(self._clock() + random.uniform(*_BETWEEN_S)))

    @contextmanager
    def _open(self) -> Iterator[IO[str]]:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with locks.held(self._path) as file:
            file.seek(0)
            yield file
