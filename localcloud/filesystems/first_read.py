"""Makes a process that opens a released file wait until its content is there, as Lustre does.

The kernel asks this process (fanotify(7)) before any guest opens a marked file, and waits for the answer.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import struct
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

_CLOEXEC, _CLASS_CONTENT, _UNLIMITED = 0x1, 0x4, 0x10 | 0x20
_MARK_ADD, _MARK_REMOVE = 0x1, 0x2
_OPEN_PERM = 0x10000
_ALLOW, _DENY = 1, 2
_AT_FDCWD = -100
_EVENT = struct.Struct("=IBBHQii")  # length, version, reserved, metadata length, mask, descriptor, pid
_ANSWER = struct.Struct("=iI")
_AT_ONCE = 4

_libc = ctypes.CDLL(None, use_errno=True)


class FirstRead:
    """Calls `fill(path)` with a path that leads to the file, in one of a few threads; OSError refuses the open."""

    def __init__(self, fill: Callable[[str], None]) -> None:
        flags = _CLOEXEC | _CLASS_CONTENT | _UNLIMITED
        self._group = _libc.fanotify_init(flags, os.O_RDONLY | os.O_CLOEXEC | os.O_LARGEFILE)
        self._fill = fill
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="first-read")
        if self.works:
            self._end = os.eventfd(0)
            self._listener = threading.Thread(target=self._listen, name="first-read", daemon=True)
            self._listener.start()

    @property
    def works(self) -> bool:
        """Not available if the kernel lacks it, or without root."""
        return bool(self._group >= 0)

    def watch(self, path: os.PathLike[str] | str) -> None:
        self._mark(_MARK_ADD, path)

    def leave(self, path: os.PathLike[str] | str) -> None:
        self._mark(_MARK_REMOVE, path)

    def _mark(self, action: int, path: os.PathLike[str] | str) -> None:
        """A file without its mark, or a deleted one, is not watched."""
        mask = ctypes.c_uint64(_OPEN_PERM)
        _libc.fanotify_mark(self._group, action, mask, _AT_FDCWD, os.fsencode(path))

    def _listen(self) -> None:
        waiting = select.poll()
        for each in (self._group, self._end):
            waiting.register(each, select.POLLIN)
        while self._end not in dict(waiting.poll()):
            events = os.read(self._group, 65536)
            for offset in range(0, len(events), _EVENT.size):
                *_, descriptor, pid = _EVENT.unpack_from(events, offset)
                if pid == os.getpid():  # this process itself, filling the file
                    self._answer(descriptor, _ALLOW)
                else:
                    self._pool.submit(self._let_in, descriptor)

    def _let_in(self, descriptor: int) -> None:
        answer = _DENY
        try:
            self._fill(f"/proc/self/fd/{descriptor}")
            answer = _ALLOW
        except OSError:
            pass  # as if the servers did not answer
        finally:
            self._answer(descriptor, answer)

    def _answer(self, descriptor: int, answer: int) -> None:
        with contextlib.suppress(OSError):
            os.write(self._group, _ANSWER.pack(descriptor, answer))
        os.close(descriptor)

    def close(self) -> None:
        """Admits everybody who still waits. A second call does nothing."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        if self.works:
            os.eventfd_write(self._end, 1)
            self._listener.join()
            os.close(self._group)
            os.close(self._end)
            self._group = -1
