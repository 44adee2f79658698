"""A head node to connect to: a real SSH server (paramiko's) behind a real websocket; commands run on this machine."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import paramiko
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from paramiko.common import cMSG_CHANNEL_REQUEST
from websockets.exceptions import ConnectionClosed
from websockets.sync.server import ServerConnection, serve

from localcloud.testing import patience


def new_key() -> paramiko.Ed25519Key:
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH
    pem = Ed25519PrivateKey.generate().private_bytes(encoding, form, serialization.NoEncryption())
    return paramiko.Ed25519Key.from_private_key(io.StringIO(pem.decode()))


class Head:
    """A `gpucluster.head.remote.Door` to itself. Pushed keys are good for `key_valid_s`; `cut()` ends every tunnel.
    `on_login` is called before a key is accepted, `on_command` before a command starts; False refuses the command, as
    sshd does if it cannot fork. `greeting`: lines of bash that run before each command, as those of a ~/.bashrc do.

    Each connection has `max_sessions` at once at most, by default as sshd's MaxSessions (sshd_config(5)).
    """

    def __init__(self) -> None:
        self.max_sessions = 10
        self.most_sessions = self.refused_sessions = 0
        self.key = new_key()
        self.published = f"{self.key.get_name()} {self.key.get_base64()} root@head"
        self.key_valid_s = 60.0
        self.refuse_tunnel = ""
        self.greeting = ""
        self.on_login: Callable[[], object] = lambda: None
        self.on_command: Callable[[], bool] = lambda: True
        self.opened = self.resized = 0
        self.pushed: list[tuple[float, str]] = []
        self.commands: list[subprocess.Popen[bytes]] = []
        self._sockets: list[socket.socket] = []
        self._server = serve(self._tunnel, "127.0.0.1", 0, compression=None, max_size=None)
        self.port = self._server.socket.getsockname()[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def host_key(self) -> str:
        return self.published

    def push_key(self, public_key: str) -> None:
        self.pushed.append((time.monotonic() + self.key_valid_s, public_key.split()[1]))

    def tunnel_url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/openTunnel?remotePort=22"

    def takes(self, key: paramiko.PKey) -> bool:
        return any(until > time.monotonic() and key.get_base64() == pushed for until, pushed in self.pushed)

    def cut(self) -> None:
        for end in self._sockets:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        self._sockets.clear()

    def close(self) -> None:
        self.cut()
        for command in self.commands:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(command.pid, signal.SIGKILL)
        self._server.shutdown()

    def _tunnel(self, websocket: ServerConnection) -> None:
        if self.refuse_tunnel:
            websocket.close(1011, self.refuse_tunnel)
            return
        self.opened += 1
        ours, theirs = socket.socketpair()
        self._sockets.append(ours)
        transport = paramiko.Transport(theirs)
        transport.add_server_key(self.key)
        transport.start_server(server=_Server(self), event=threading.Event())
        back = threading.Thread(target=_copy, args=(ours, websocket), daemon=True)
        back.start()
        with contextlib.suppress(ConnectionClosed, OSError):
            for frame in websocket:
                ours.sendall(frame)
        with contextlib.suppress(OSError):
            ours.shutdown(socket.SHUT_RDWR)
        back.join(5)
        transport.close()
        ours.close()


def _copy(source: socket.socket, websocket: ServerConnection) -> None:
    with contextlib.suppress(ConnectionClosed, OSError):
        while data := source.recv(65536):
            websocket.send(data)
    websocket.close(1000, "")


class _Server(paramiko.ServerInterface):
    def __init__(self, head: Head) -> None:
        self._head, self._sessions, self._lock = head, 0, threading.Lock()

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        self._head.on_login()
        good = username == "ubuntu" and self._head.takes(key)
        return paramiko.AUTH_SUCCESSFUL if good else paramiko.AUTH_FAILED

    def get_allowed_auths(self, username: str) -> str:
        return "publickey"

    def check_channel_request(self, kind: str, chanid: int) -> int:
        """Like sshd: "open failed", code 2 (server_input_channel_open in OpenSSH's serverloop.c)."""
        with self._lock:
            if self._sessions >= self._head.max_sessions:
                self._head.refused_sessions += 1
                return paramiko.OPEN_FAILED_CONNECT_FAILED
            self._sessions += 1
            self._head.most_sessions = max(self._head.most_sessions, self._sessions)
        return paramiko.OPEN_SUCCEEDED

    def check_channel_pty_request(self, channel: paramiko.Channel, *terminal: object) -> bool:
        """The command gets no terminal, but it runs as if it had one."""
        return True

    def check_channel_shell_request(self, channel: paramiko.Channel) -> bool:
        return self.check_channel_exec_request(channel, b"exec bash")

    def check_channel_window_change_request(self, channel: paramiko.Channel, *size: int) -> bool:
        self._head.resized += 1
        return True

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        if not self._head.on_command():
            return False
        threading.Thread(target=_execute, args=(self._head, channel, command, self._ended), daemon=True).start()
        return True

    def _ended(self) -> None:
        with self._lock:
            self._sessions -= 1


def _execute(head: Head, channel: paramiko.Channel, command: bytes, ended: Callable[[], None]) -> None:
    pipe = subprocess.PIPE
    argv = ["bash", "-c", head.greeting + command.decode()]
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True) as process:
        head.commands.append(process)
        outputs = [
            threading.Thread(target=_drain, args=(process.stdout, channel.sendall)),
            threading.Thread(target=_drain, args=(process.stderr, channel.sendall_stderr)),
        ]
        for output in outputs:
            output.start()
        # beside: as with sshd, a program may end before its client has said all
        threading.Thread(target=_feed, args=(channel, process.stdin), daemon=True).start()
        # sshd sends the end of the outputs and the exit status in any order
        exiting = threading.Thread(target=_exit, args=(channel, process, ended))
        exiting.start()
        for output in outputs:
            output.join()
        with contextlib.suppress(OSError, EOFError):
            channel.shutdown_write()
        exiting.join()
        with contextlib.suppress(OSError, EOFError):
            channel.close()


def _exit(channel: paramiko.Channel, process: subprocess.Popen[bytes], ended: Callable[[], None]) -> None:
    process.wait()
    _until_answered(channel)
    ended()  # before the client hears of it, and asks for another session
    with contextlib.suppress(OSError, EOFError):
        _send_exit(channel, process.returncode)


def _send_exit(channel: paramiko.Channel, returncode: int) -> None:
    """As sshd does (session_exit_message in OpenSSH's session.c; RFC 4254, 6.10). paramiko's own method refuses to send
    it after the end of the outputs."""
    message = paramiko.Message()
    message.add_byte(cMSG_CHANNEL_REQUEST)
    message.add_int(channel.remote_chanid)
    message.add_string("exit-status" if returncode >= 0 else "exit-signal")
    message.add_boolean(False)  # no reply
    if returncode >= 0:
        message.add_int(returncode)
    else:
        message.add_string(signal.Signals(-returncode).name.removeprefix("SIG"))
        message.add_boolean(False)  # no core dump
        message.add_string("")
        message.add_string("")
    channel.transport._send_user_message(message)


def _until_answered(channel: paramiko.Channel) -> None:
    """paramiko answers the request after it has called us. The channel must not end before: the client has the
    answer when it sends data, or the end of its data."""
    until = time.monotonic() + 0.5
    while not (channel.eof_received or channel.recv_ready() or channel.closed) and time.monotonic() < until:
        time.sleep(0.005)


def _feed(channel: paramiko.Channel, stdin: io.BufferedWriter) -> None:
    with contextlib.suppress(OSError, ValueError):
        while data := channel.recv(65536):
            stdin.write(data)
            stdin.flush()
    with contextlib.suppress(OSError, ValueError):
        stdin.close()


def _drain(stream: io.BufferedReader, send) -> None:
    """The command gets SIGPIPE if its client no longer reads, as from sshd."""
    with stream, contextlib.suppress(OSError, EOFError):
        while data := os.read(stream.fileno(), 65536):
            send(data)


@contextlib.contextmanager
def running_head() -> Iterator[Head]:
    head = Head()
    try:
        yield head
    finally:
        head.close()


@contextlib.contextmanager
def once(file: Path, call: Callable[[], object]) -> Iterator[None]:
    """Calls from another thread when the file exists, which a command makes."""

    def wait() -> None:
        patience.wait_for(file.name, file.exists, 300, 0.01)
        call()

    thread = threading.Thread(target=wait)
    thread.start()
    yield
    thread.join()


def no_longer_sends(tunnel: object, data: bytes) -> int:
    """In place of `TunnelSocket.send`: the connection has broken, and only who sends finds out."""
    raise OSError("the tunnel is closed")
