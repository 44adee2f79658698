"""Connects this terminal, or these pipes, with an SSH channel."""

from __future__ import annotations

import contextlib
import os
import select
import shlex
import shutil
import signal
import sys
import termios
import threading
import tty
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from gpucluster.head import streams

if TYPE_CHECKING:
    import paramiko

_CHUNK = 32768


def run(channel: paramiko.Channel, argv: Sequence[str]) -> int:
    """Runs a command with this process's stdin, stdout and stderr, byte for byte. Returns its exit code."""
    with _until_broken(channel):
        channel.exec_command(shlex.join(argv))
        pumps = [_pump(channel.recv, sys.stdout.buffer), _pump(channel.recv_stderr, sys.stderr.buffer)]
        threading.Thread(target=_send_stdin, args=(channel,), daemon=True).start()
        for pump in pumps:
            pump.join()
    return _exit_code(channel)


def shell(channel: paramiko.Channel, argv: Sequence[str] | None = None) -> int:
    """An interactive login, or `argv` with this terminal; without a terminal, the commands from stdin."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return run(channel, argv or ["bash", "--login"])
    size = shutil.get_terminal_size()
    with _until_broken(channel):
        channel.get_pty(os.environ.get("TERM", "xterm"), size.columns, size.lines)
        if argv:
            channel.exec_command(shlex.join(argv))
        else:
            channel.invoke_shell()
        with _raw(sys.stdin.fileno()), _resizing(channel):
            _exchange(channel, sys.stdin.fileno(), sys.stdout.fileno())
    return _exit_code(channel)


@contextlib.contextmanager
def _until_broken(channel: paramiko.Channel) -> Iterator[None]:
    """A channel whose connection broke, or whose terminal is gone, is closed: `_exit_code` does not wait for it."""
    try:
        yield
    except streams.broken():
        streams.close(channel)


def _exchange(channel: paramiko.Channel, source: int, target: int) -> None:
    while True:
        ready, _, _ = select.select([channel, source], [], [])
        if channel in ready:
            data = channel.recv(_CHUNK)
            if not data:
                return
            os.write(target, data)
        if source in ready:
            channel.sendall(os.read(source, _CHUNK))


def _send_stdin(channel: paramiko.Channel) -> None:
    with contextlib.suppress(*streams.broken(), ValueError):
        while data := os.read(sys.stdin.fileno(), _CHUNK):
            channel.sendall(data)
        channel.shutdown_write()


def _pump(receive: Callable[[int], bytes], target: Any) -> threading.Thread:
    def copy() -> None:
        with contextlib.suppress(OSError):
            while data := receive(_CHUNK):
                target.write(data)
                target.flush()

    thread = threading.Thread(target=copy, daemon=True)
    thread.start()
    return thread


def _exit_code(channel: paramiko.Channel) -> int:
    """255, as with ssh, if the connection broke or a signal ended the command. For a signal that ended only a part of
    a command, the remote shell returns 128 + n."""
    code: int = channel.recv_exit_status()
    if code >= 0:
        return code
    if not streams.has_ended(channel):
        sys.stderr.write("gpucluster: the connection to the head node broke\n")
    return 255


@contextlib.contextmanager
def _raw(terminal: int) -> Iterator[None]:
    before = termios.tcgetattr(terminal)
    tty.setraw(terminal, termios.TCSADRAIN)  # as ssh does: keeps what was typed before
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


@contextlib.contextmanager
def _resizing(channel: paramiko.Channel) -> Iterator[None]:
    def resize(*_: object) -> None:
        size = shutil.get_terminal_size()
        channel.resize_pty(size.columns, size.lines)

    before = signal.signal(signal.SIGWINCH, resize)
    try:
        yield
    finally:
        signal.signal(signal.SIGWINCH, before)
