"""A command over SSH: its input and outputs, how it ended, and the exceptions of a connection that broke."""

from __future__ import annotations

import contextlib
import shlex
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from gpucluster.errors import RemoteError, UnansweredError

if TYPE_CHECKING:
    import paramiko

_PIECE = 2**18
"""How many bytes of a command's input are sent before the progress is reported again."""
_NOTICED_S = 0.5
"""How long paramiko may take to mark a connection as inactive that sshd has ended, after it has closed the channels.
If the connection broke, paramiko keeps an exception before that (Transport.run)."""
_CLOSED = "Channel closed."
"""paramiko's message if sshd refuses a request, or if the connection has ended (Channel._wait_for_event)."""


def broken() -> tuple[type[Exception], ...]:
    """What paramiko raises when a connection ends or is refused. A function, because importing paramiko takes long."""
    import paramiko

    return (OSError, EOFError, paramiko.SSHException)


def close(channel: paramiko.Channel) -> None:
    """Closes a channel, also over a connection that has ended: there paramiko's own `close` may raise an exception."""
    with contextlib.suppress(*broken()):
        channel.close()


def start(channel: paramiko.Channel, argv: Sequence[str], timeout_s: float) -> None:
    """Starts a command. Raises RemoteError."""
    with answering(channel, timeout_s):
        channel.exec_command(shlex.join(argv))


@contextlib.contextmanager
def answering(channel: paramiko.Channel, timeout_s: float) -> Iterator[None]:
    """Limits how long requests to sshd wait for their answers, such as the request to start a command. paramiko has no
    such limit. Raises RemoteError."""
    late = threading.Event()

    def end() -> None:
        late.set()
        close(channel)

    limit = threading.Timer(timeout_s, end)
    limit.daemon = True
    limit.start()
    try:
        yield
    except broken() as error:
        raise (unanswered(timeout_s) if late.is_set() else failure(channel, error)) from None
    finally:
        limit.cancel()


def unanswered(timeout_s: float) -> UnansweredError:
    return UnansweredError(f"the head node did not answer within {timeout_s:.0f} s")


def exit_code(channel: paramiko.Channel, timeout_s: float | None = None) -> int:
    """The exit code of a command whose output was read to its end. Raises TimeoutError. Raises UnansweredError if there
    is none: if a signal ended the command, sshd sends no exit status (session_exit_message in OpenSSH's session.c).
    Raises it also if the connection broke between the exit status and the end of the output, which sshd sends in any
    order."""
    if not channel.status_event.wait(timeout_s):
        raise TimeoutError
    code: int = channel.recv_exit_status()
    if code >= 0 and (channel.eof_received or _is_connected(channel)):
        return code
    raise failure(channel)


def failure(channel: paramiko.Channel, error: Exception | None = None) -> RemoteError:
    """Why a command has no exit code. error: one of `broken()`, if there was one."""
    if error is None and _is_connected(channel):
        return UnansweredError("a signal ended the command on the head node")
    if str(error) == _CLOSED and _is_connected(channel):
        hint = "it may have no memory or processes left: try again; `gpucluster head replace` replaces it"
        return RemoteError("the head node refuses to start a command", hint)
    reason = f": {error}" if error and str(error) not in ("", _CLOSED) else ""
    return UnansweredError(f"the connection to the head node broke{reason}")


def _is_connected(channel: paramiko.Channel) -> bool:
    until = time.monotonic() + _NOTICED_S
    while channel.transport.is_active() and not channel.transport.saved_exception:
        if time.monotonic() > until:
            return True
        time.sleep(0.01)
    return False


def send(write: Callable[[bytes], object], data: bytes, sent: Callable[[int], None]) -> None:
    """write: writes all bytes of its argument. sent: called with the number of bytes sent so far. The data is sent in
    pieces, because paramiko's `sendall` copies the remaining data for each packet of 32 KiB, which takes a minute for
    185 MB. Raises TimeoutError. Returns early if the channel is closed: the command has ended without reading
    everything, or the connection broke, and `exit_code` knows which."""
    for start in range(0, len(data), _PIECE):
        try:
            write(data[start : start + _PIECE])
        except TimeoutError:
            raise
        except OSError:
            return
        sent(min(start + _PIECE, len(data)))


def received(channel: paramiko.Channel, idle_s: float, stop: Callable[[], bool] | None) -> Iterator[bytes]:
    """A command's output. `stop`: called while there is none; when it returns True, the command's input is closed."""
    channel.settimeout(idle_s)
    if stop is None:
        channel.shutdown_write()
    while True:
        try:
            data = channel.recv(65536)
        except TimeoutError:
            if stop and stop():
                channel.shutdown_write()
                stop = None
            continue
        if not data:
            return
        yield data


def last_line(rest: bytes) -> Iterator[str]:
    if rest:
        yield rest.decode(errors="replace")


class Reader(threading.Thread):
    """Reads a stream to its end, while the caller reads another one."""

    def __init__(self, receive: Callable[[int], bytes]) -> None:
        super().__init__(daemon=True)
        self._receive, self._pieces = receive, list[bytes]()
        self.start()

    def run(self) -> None:
        with contextlib.suppress(*broken()):
            while piece := self._piece():
                self._pieces.append(piece)

    def _piece(self) -> bytes:
        """The channel's time limit is for the caller's stream: this one may be silent for longer."""
        while True:
            with contextlib.suppress(TimeoutError):
                return self._receive(65536)

    def text(self) -> bytes:
        self.join(5)
        return b"".join(self._pieces)
