"""Decides when EC2 is asked again for capacity that it lacked: the launches of a partition take turns, with one call in
about 15 s.

ResumePrograms share the time of the next call through a file. When a launch succeeds, all others of the partition may
call at once.
"""

from __future__ import annotations

import fcntl
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

FOLDER = Path("/run/gpucluster/shortage")
EVERY_S = 15
_BETWEEN_S = (12.0, 17.0)
"""Random, so that clusters whose calls failed at the same time do not repeat them at the same time."""


class Turns:
    def __init__(self, partition: str, clock: Callable[[], float]) -> None:
        """clock: the same for all programs, such as time.monotonic; the file is gone after a boot."""
        self._path, self._clock = FOLDER / partition, clock

    def failed(self) -> None:
        with self._open() as file:
            self._put_off(file)

    def succeeded(self) -> None:
        self._path.unlink(missing_ok=True)

    def may_call(self) -> bool:
        """Whether the caller may call EC2 now. If so, no other program may until this call has failed or succeeded."""
        with self._open() as file:
            text = file.read()
            if text and self._clock() < float(text):
                return False
            if text:
                self._put_off(file)
            return True

    def _put_off(self, file: IO[str]) -> None:
        file.seek(0)
        file.truncate()
        file.write(str(self._clock() + random.uniform(*_BETWEEN_S)))

    @contextmanager
    def _open(self) -> Iterator[IO[str]]:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            yield file
