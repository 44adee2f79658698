"""A channel in Pipe mode: a FIFO for each epoch, CHANNEL_0, CHANNEL_1 and so on, which one reader reads in order."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

_EVERY_S = 0.05
Epoch = Callable[[int], Iterable[bytes]]
"""The bytes of an epoch."""


class Pipe:
    """Writes until it is closed. The next FIFO appears when the last one's reader has read all of it, or closed it."""

    def __init__(self, folder: Path, channel: str, epoch: Epoch, failed: Callable[[str], None]) -> None:
        self._folder, self._channel, self._epoch, self._failed = folder, channel, epoch, failed
        self._closing = threading.Event()
        self._path(0)  # the first exists before the program starts
        self._thread = threading.Thread(target=self._write_all, name=f"pipe-{channel}", daemon=True)
        self._thread.start()

    def _path(self, number: int) -> Path:
        path = self._folder / f"{self._channel}_{number}"
        if not path.exists():
            os.mkfifo(path, 0o666)
        return path

    def _write_all(self) -> None:
        number = 0
        try:
            while not self._closing.is_set():
                path = self._path(number)
                if (descriptor := self._opened(path)) is None:
                    return
                self._write(descriptor, self._epoch(number))
                number += 1
        except Exception as error:  # noqa: BLE001 - the thread is the channel's: the job tells its user
            self._failed(str(error))

    def _opened(self, path: Path) -> int | None:
        """For writing, once somebody reads; None if it is closed before."""
        while not self._closing.wait(_EVERY_S):
            try:
                return os.open(path, os.O_WRONLY | os.O_NONBLOCK)
            except OSError as error:
                if error.errno != errno.ENXIO:
                    raise
        return None

    def _write(self, descriptor: int, content: Iterable[bytes]) -> None:
        try:
            with contextlib.suppress(BrokenPipeError):  # the reader has closed it: the next epoch follows
                for part in self._parts(content):
                    self._put(descriptor, part)
        finally:
            os.close(descriptor)

    def _parts(self, content: Iterable[bytes]) -> Iterator[memoryview]:
        for part in content:
            if self._closing.is_set():
                return
            yield memoryview(part)

    def _put(self, descriptor: int, part: memoryview) -> None:
        """Not blocking, so that a reader that stops reading does not keep the job from ending."""
        while part and not self._closing.is_set():
            try:
                part = part[os.write(descriptor, part) :]
            except BlockingIOError:
                time.sleep(_EVERY_S / 10)

    def close(self) -> None:
        self._closing.set()
        self._thread.join()
