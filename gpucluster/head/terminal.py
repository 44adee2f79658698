"""Connects this terminal, or these pipes, with an SSH channel."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import shutil
import signal
import sys
import termios
import threading
import tty
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, BinaryIO

from gpucluster.errors import UnansweredError
from gpucluster.head import streams
from gpucluster.head.tunnel import write

if TYPE_CHECKING:
    import paramiko

_CHUNK = 32768
_ANSWER_S = 30.0
_FULL_PAUSE_S = 0.05
"""The time between attempts to send to a command that does not read."""
NO_EXIT_CODE = 255
"""The verb's exit code, as ssh's, if the connection broke or a signal ended the command. If a signal ended only a part
of a command, the remote shell returns 128 + n."""


def run(channel: paramiko.Channel, argv: Sequence[str]) -> int:
    """Runs a command with this process's stdin, stdout and stderr, byte for byte. Returns its exit code, or
    NO_EXIT_CODE. Raises RemoteError if the head node does not start the command, and OSError if stdout or stderr cannot
    be written."""
    return _exit_code(channel, lambda: _pass_through(channel, argv))


def shell(channel: paramiko.Channel, argv: Sequence[str] | None = None) -> int:
    """An interactive login, or `argv` with this terminal; without a terminal, the commands from stdin."""
    if not is_interactive():
        return run(channel, argv or ["bash", "--login"])
    return _exit_code(channel, lambda: _interact(channel, argv))


def is_interactive() -> bool:
    """Python has no object for a stdin or stdout that is closed."""
    return all(stream and stream.isatty() for stream in (sys.stdin, sys.stdout))


def _exit_code(channel: paramiko.Channel, command: Callable[[], None]) -> int:
    try:
        command()
        return streams.exit_code(channel)
    except UnansweredError as error:
        sys.stderr.write(f"error: {error.message}\n")
        return NO_EXIT_CODE
    finally:
        streams.close(channel)


def _pass_through(channel: paramiko.Channel, argv: Sequence[str]) -> None:
    streams.start(channel, argv, _ANSWER_S)
    pumps = [_Pump(channel, channel.recv, sys.stdout.buffer), _Pump(channel, channel.recv_stderr, sys.stderr.buffer)]
    threading.Thread(target=_send_stdin, args=(channel,), daemon=True).start()
    for pump in pumps:
        pump.finish()


class _Pump(threading.Thread):
    """Copies an output of a command to one of this process."""

    def __init__(self, channel: paramiko.Channel, receive: Callable[[int], bytes], target: BinaryIO) -> None:
        super().__init__(daemon=True)
        self._channel, self._receive, self._target = channel, receive, target
        self._error: Exception | None = None
        self.start()

    def run(self) -> None:
        try:
            while data := _received(self._channel, self._receive):
                self._target.write(data)
                self._target.flush()
        except Exception as error:
            self._error = error
            streams.close(self._channel)  # which ends the command and the other output

    def finish(self) -> None:
        """Raises what ended it early: RemoteError, or OSError of the target."""
        self.join()
        if self._error:
            raise self._error


def _received(channel: paramiko.Channel, receive: Callable[[int], bytes]) -> bytes:
    """Raises RemoteError."""
    try:
        return receive(_CHUNK)
    except streams.broken() as error:
        raise streams.failure(channel, error) from None


def _send_stdin(channel: paramiko.Channel) -> None:
    """A stdin that is closed, or that cannot be read, is an empty one."""
    with contextlib.suppress(*streams.broken(), ValueError):
        try:
            while sys.stdin and (data := _read(sys.stdin.fileno())):
                channel.sendall(data)
        finally:
            channel.shutdown_write()


def _read(source: int) -> bytes:
    """Another program that has the same stdin may have made it non-blocking."""
    while True:
        select.select([source], [], [])
        with contextlib.suppress(BlockingIOError):
            return os.read(source, _CHUNK)


def _interact(channel: paramiko.Channel, argv: Sequence[str] | None) -> None:
    size = shutil.get_terminal_size()
    with streams.answering(channel, _ANSWER_S):
        channel.get_pty(os.environ.get("TERM", "xterm"), size.columns, size.lines)
        if not argv:
            channel.invoke_shell()
    if argv:
        streams.start(channel, argv, _ANSWER_S)
    with _raw(sys.stdin.fileno()), _resizes() as resized:
        _exchange(channel, sys.stdin.fileno(), sys.stdout.fileno(), resized)


def _exchange(channel: paramiko.Channel, source: int, target: int, resized: int) -> None:
    """Shows the command's output to its end, and sends what is typed. The output continues while the command does not
    read. Raises RemoteError, and OSError if this terminal is gone."""
    typed = b""
    while True:
        sources = [channel, resized] if typed else [channel, resized, source]
        ready, _, _ = select.select(sources, [], [], _FULL_PAUSE_S if typed else None)
        if resized in ready:
            _resize(channel, resized)
        if channel in ready:
            data = _received(channel, channel.recv)
            if not data:
                return
            write(target, data)
        if source in ready:
            typed = os.read(source, _CHUNK)
            if not typed:
                raise OSError(errno.EIO, "this terminal is gone")
        typed = _sent(channel, typed)


def _sent(channel: paramiko.Channel, typed: bytes) -> bytes:
    """What is left, because the command does not read. The keys are lost if the connection breaks."""
    try:
        while typed and channel.send_ready():
            typed = typed[channel.send(typed) :]
    except streams.broken():
        return b""
    return typed


@contextlib.contextmanager
def _raw(terminal: int) -> Iterator[None]:
    before = termios.tcgetattr(terminal)
    tty.setraw(terminal, termios.TCSADRAIN)  # ssh, too, keeps what was typed before
    try:
        yield
    finally:
        with contextlib.suppress(termios.error):  # the terminal is gone
            termios.tcsetattr(terminal, termios.TCSADRAIN, before)


@contextlib.contextmanager
def _resizes() -> Iterator[int]:
    """A pipe that has data after each resize of this terminal. The signal's handler itself must not send: it may have
    interrupted paramiko, which holds a lock while it sends."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)

    def resized(*_: object) -> None:
        with contextlib.suppress(BlockingIOError):
            os.write(writer, b"r")

    before = signal.signal(signal.SIGWINCH, resized)
    try:
        yield reader
    finally:
        signal.signal(signal.SIGWINCH, before)
        os.close(reader)
        os.close(writer)


def _resize(channel: paramiko.Channel, resized: int) -> None:
    os.read(resized, _CHUNK)
    size = shutil.get_terminal_size()
    with contextlib.suppress(*streams.broken()):  # the command has ended, or its output ends soon
        channel.resize_pty(size.columns, size.lines)
