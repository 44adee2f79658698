"""The data of a command over SSH: its input, its outputs, and the exceptions of a connection that broke."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import paramiko

_PIECE = 2**18
"""How many bytes of a command's input are sent before the progress is reported again."""


def broken() -> tuple[type[Exception], ...]:
    """What paramiko raises when a connection ends or is refused. A function, because importing paramiko takes long."""
    import paramiko

    return (OSError, EOFError, paramiko.SSHException)


def close(channel: paramiko.Channel) -> None:
    """Closes a channel, also over a connection that has ended: there paramiko's own `close` may raise an exception."""
    with contextlib.suppress(*broken()):
        channel.close()


def has_ended(channel: paramiko.Channel) -> bool:
    """Whether the command of a closed channel has ended. If it has not, the connection broke. sshd reports the end of
    the outputs of each command that ends. If a signal ended the command, sshd sends no exit status
    (session_exit_message and session_close_by_channel in OpenSSH's session.c)."""
    return bool(channel.eof_received)


def send(write: Callable[[bytes], object], data: bytes, sent: Callable[[int], None]) -> None:
    """write: writes all bytes of its argument. sent: called with the number of bytes sent so far. The data is sent in
    pieces, because paramiko's `sendall` copies the remaining data for each packet of 32 KiB, which takes a minute for
    185 MB."""
    for start in range(0, len(data), _PIECE):
        write(data[start : start + _PIECE])
        sent(min(start + _PIECE, len(data)))


def last_line(rest: bytes) -> Iterator[str]:
    if rest:
        yield rest.decode(errors="replace")


class Reader(threading.Thread):
    """Reads a stream to its end, while the caller reads another one."""

    def __init__(self, receive: Callable[[int], bytes]) -> None:
        super().__init__(daemon=True)
        self._receive, self._data = receive, b""
        self.start()

    def run(self) -> None:
        with contextlib.suppress(OSError, EOFError):
            self._data = b"".join(iter(lambda: self._receive(65536), b""))

    def text(self) -> bytes:
        self.join(5)
        return self._data
