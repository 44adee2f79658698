"""Running commands on the head node: over SSH through an EC2 Instance Connect Endpoint.

A `Door` has the head node's address and opens the tunnel to it (see `gpucluster.cluster.aws`). Imports paramiko only
to connect.
"""

from __future__ import annotations

import base64
import contextlib
import logging
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

from gpucluster import account
from gpucluster.errors import CloudError, RemoteError
from gpucluster.head import commands, streams
from gpucluster.head.tunnel import TunnelSocket, open_tunnel

if TYPE_CHECKING:
    import paramiko

PENDING_HOST_KEY = "pending"
CONNECT_TIMEOUT_S = 30.0
_URL_S = 30.0
"""A tunnel's URL is signed for a minute. If AWS's other answers take longer than this, it is signed again."""
_IDLE_S = 0.5
"""How long `follow` waits for output before it asks whether to stop."""
_ATTEMPTS = 3
_COMMANDS = 8
"""Run at once over one connection; others wait. sshd refuses the eleventh session of a connection (MaxSessions in
sshd_config(5)), and logs that are followed are sessions, too."""
_FULL_S = 20.0
"""How long a refused session is requested again."""
_FULL_PAUSE_S = 0.5
logging.getLogger("paramiko").addHandler(logging.NullHandler())  # it logs tracebacks of errors that we report
_LAST_WORDS = r"tar: (Exiting with failure status|Child returned status|Error is not recoverable)"
"""What GNU tar prints after the reason."""
_MISSING = "No module named 'gpucluster_node"
_ENDS_EARLY = "does a file there, such as ~/.bashrc, end the shell? `gpucluster ssh -- 'true'` shows what it prints"
OTHER_VERSION = "the head node has another version of GpuCluster: `gpucluster up` updates it"


_Answer = TypeVar("_Answer")
Outlast = Callable[[CloudError], None]
"""Raises errors that another try cannot fix."""


@dataclass(frozen=True)
class Completed:
    exit_code: int
    stdout: str
    stderr: str

    def check(self, what: str) -> Completed:
        """Returns itself if the command succeeded. Raises RemoteError with `what` and the command's own message."""
        if self.exit_code != 0:
            lines = (self.stderr.strip() or self.stdout.strip() or "no output").splitlines()
            said = next((line for line in reversed(lines) if not re.match(_LAST_WORDS, line)), lines[-1])
            raise RemoteError(
                f"{what}: exit code {self.exit_code}: {said}", OTHER_VERSION if _MISSING in said else None
            )
        return self


Sent = Callable[[int], None]
"""Called with the number of bytes sent so far."""


class Remote(Protocol):
    def real(self, path: str) -> str:
        """Where on this cluster that path of `account.home()` is."""
        ...

    def run(
        self, argv: Sequence[str], *, input: bytes | None = None, timeout_s: float = 60, sent: Sent | None = None
    ) -> Completed: ...

    def put(self, data: bytes, path: str, mode: int = 0o644) -> None:
        """Writes the file atomically, with its mode from the first byte."""
        ...

    def get(self, path: str) -> bytes: ...

    def stream(self, argv: Sequence[str], *, what: str, stop: Callable[[], bool] | None = None) -> Iterator[bytes]:
        """A command's output as it arrives, however much it is. While there is none, it calls `stop`; when that returns
        True, it closes the command's input and reads the rest. Raises RemoteError with `what` if the command fails."""
        ...

    def follow(self, path: str, *, stop: Callable[[], bool], outlast: Outlast | None = None) -> Iterator[str]:
        """Each line once, without its end, from the first on. Calls `stop` if there is nothing new. `outlast` gets each
        failure to connect, and returns when it is time to try again."""
        ...

    def close(self) -> None: ...


class Way(Protocol):
    """AWS's part in a connection to one instance. Threads may share it."""

    def tunnel_url(self) -> str:
        """Signed, valid for a minute."""
        ...

    def push_key(self, public_key: str) -> None:
        """The instance accepts it for 60 seconds."""
        ...


class Door(Way, Protocol):
    """The connection to the head node, and AWS's data about it."""

    def host_key(self) -> str:
        """`ssh-ed25519 AAAA…`, or PENDING_HOST_KEY until the head node has booted."""
        ...


class SshRemote:
    """Connects on first use, and again when the tunnel has ended: AWS ends each tunnel after an hour."""

    def __init__(self, door: Door, *, find_again: Callable[[], Door] | None = None) -> None:
        """`find_again`: called before a further connection, because there may be another head node by then."""
        self._door = door
        self._user = account.user()
        self._find_again, self._tried = find_again, False
        self._transport: paramiko.Transport | None = None
        self._lock, self._commands = threading.Lock(), threading.BoundedSemaphore(_COMMANDS)

    def real(self, path: str) -> str:
        return path

    def run(
        self, argv: Sequence[str], *, input: bytes | None = None, timeout_s: float = 60, sent: Sent | None = None
    ) -> Completed:
        exit_code, out, error = self._execute(argv, input, timeout_s, sent)
        return Completed(exit_code, out.decode(errors="replace"), error)

    def put(self, data: bytes, path: str, mode: int = 0o644) -> None:
        self.run(commands.put_argv(path, mode), input=data).check(f"cannot write {path} on the head node")

    def get(self, path: str) -> bytes:
        exit_code, out, error = self._execute(["cat", "--", path], None, 60)
        Completed(exit_code, "", error).check(f"cannot read {path} on the head node")
        return out

    def stream(self, argv: Sequence[str], *, what: str, stop: Callable[[], bool] | None = None) -> Iterator[bytes]:
        channel = self.session()
        try:
            streams.start(channel, commands.around(argv), CONNECT_TIMEOUT_S)
            error = streams.Reader(channel.recv_stderr)
            yield from commands.output_after_mark(streams.received(channel, _IDLE_S, stop))
            code = streams.exit_code(channel, CONNECT_TIMEOUT_S)
            Completed(code, "", commands.messages(error.text())).check(what)
        except streams.broken() as problem:
            raise streams.failure(channel, problem) from None
        finally:
            streams.close(channel)

    def follow(self, path: str, *, stop: Callable[[], bool], outlast: Outlast | None = None) -> Iterator[str]:
        def tail(offset: int) -> Iterator[bytes | None]:
            channel = self._started_at_last(commands.around(commands.tail_argv(path, offset)), outlast)
            return commands.pieces_after_mark(self._tail(channel, stop))

        return commands.lines_of(tail)

    def _started_at_last(self, argv: Sequence[str], outlast: Outlast | None) -> paramiko.Channel:
        """The channel of a running command, which may have been started twice."""
        while True:
            try:
                channel = self.session()
                streams.start(channel, argv, CONNECT_TIMEOUT_S)
                return channel
            except CloudError as error:
                if outlast is None:
                    raise
                outlast(error)

    def close(self) -> None:
        with self._lock:
            if self._transport:
                self._transport.close()
            self._transport = None

    def session(self) -> paramiko.Channel:
        """A new channel; connects first if there is no connection. Raises RemoteError."""
        for _ in range(_ATTEMPTS):
            transport = self._connected()
            with contextlib.suppress(*streams.broken()):
                return _opened(transport)
            self._drop(transport)
        raise RemoteError("the head node refuses a session", "try again; `gpucluster status` shows its state")

    def _drop(self, transport: paramiko.Transport) -> None:
        """Another thread may have connected again already."""
        with self._lock:
            transport.close()
            if self._transport is transport:
                self._transport = None

    def _connected(self) -> paramiko.Transport:
        with self._lock:
            if self._transport is None or not self._transport.is_active():
                if self._tried and self._find_again:
                    self._door = self._find_again()
                self._tried = True
                self._transport = connect(self._door, self._user)
            return self._transport

    def _execute(
        self, argv: Sequence[str], input: bytes | None, timeout_s: float, sent: Sent | None = None
    ) -> tuple[int, bytes, str]:
        with self._commands:
            exit_code, out, error = self._exchange(self.session(), commands.around(argv), input, timeout_s, sent)
        said = commands.messages(error)
        if (own := commands.after_mark(out)) is None:
            why = commands.last_line(said, f"exit code {exit_code}")
            raise RemoteError(f"the head node did not run a command: {why}", _ENDS_EARLY)
        return exit_code, own, said

    def _exchange(
        self,
        channel: paramiko.Channel,
        argv: Sequence[str],
        input: bytes | None,
        timeout_s: float,
        sent: Sent | None,
    ) -> tuple[int, bytes, bytes]:
        """Never sends a command twice: if the connection breaks after sending, that is an error."""
        channel.settimeout(timeout_s)
        try:
            streams.start(channel, argv, timeout_s)
            error = streams.Reader(channel.recv_stderr)
            if input is not None:
                streams.send(channel.sendall, input, sent or (lambda count: None))
            channel.shutdown_write()
            # Read output before the exit status: with a full window the command cannot end before we read.
            out = b"".join(iter(lambda: channel.recv(65536), b""))
            exit_code = streams.exit_code(channel, timeout_s)
        except TimeoutError:
            raise streams.unanswered(timeout_s) from None
        except streams.broken() as problem:
            raise streams.failure(channel, problem) from None
        finally:
            streams.close(channel)
        return exit_code, out, error.text()

    def _tail(self, channel: paramiko.Channel, stop: Callable[[], bool]) -> Iterator[bytes | None]:
        """A file's content; None: that is all. Ends early if the connection ends."""
        channel.settimeout(_IDLE_S)
        try:
            stopping = False
            while True:
                try:
                    data = channel.recv(65536)
                except TimeoutError:
                    if stopping:
                        yield None
                        return
                    stopping = stop()
                    continue
                if not data:
                    return
                yield data
        except streams.broken():
            return
        finally:
            streams.close(channel)


def _opened(transport: paramiko.Transport) -> paramiko.Channel:
    """If sshd refuses a session, it is requested again. The other sessions continue. Raises RemoteError."""
    import paramiko

    until = time.monotonic() + _FULL_S
    while True:
        try:
            return transport.open_session(timeout=CONNECT_TIMEOUT_S)
        except paramiko.ChannelException as error:
            if time.monotonic() > until:
                hint = "it allows ten at once over a connection: follow fewer logs, or use several connections"
                raise RemoteError(f"the head node refuses a further session: {error.text}", hint) from None
        time.sleep(_FULL_PAUSE_S)


def connect(door: Door, user: str) -> paramiko.Transport:
    """A verified, authenticated connection. Raises RemoteError."""
    asked = time.monotonic()
    line, url = _beside(door.host_key), _beside(door.tunnel_url)  # paramiko takes as long to load as AWS to answer
    import paramiko

    key, public_key = _one_time_key()
    pushed = _beside(door.push_key, public_key)
    expected = _host_key(line.result())
    pushed.result()
    tunnel_url = url.result() if time.monotonic() < asked + _URL_S else door.tunnel_url()
    tunnel = open_tunnel(tunnel_url, timeout_s=CONNECT_TIMEOUT_S)
    transport = paramiko.Transport(tunnel)  # any object with recv and send works
    try:
        transport.get_security_options().key_types = [expected.get_name()]
        transport.start_client(timeout=CONNECT_TIMEOUT_S)
        _verify(transport.get_remote_server_key(), expected)
        transport.auth_publickey(user, key)
    except streams.broken() as error:
        is_connected = transport.is_active()
        tunnel.close()
        raise _refused(error, tunnel, is_connected) from None
    # Keeps the tunnel from being closed as idle, and detects a dead connection.
    transport.set_keepalive(30)
    return transport


def _beside(call: Callable[..., _Answer], *arguments: str) -> Future[_Answer]:
    """Calls in another thread. Neither an error of another call nor Ctrl-C waits for it, as they would with an
    executor."""
    answer: Future[_Answer] = Future()

    def run() -> None:
        try:
            answer.set_result(call(*arguments))
        except BaseException as error:
            answer.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return answer


def _host_key(line: str) -> paramiko.PKey:
    import paramiko

    try:
        name, encoded = published(line).split()[:2]
        return paramiko.PKey.from_type_string(name, base64.b64decode(encoded))
    except (ValueError, paramiko.SSHException) as error:
        raise RemoteError(f"the head node's published host key cannot be read: {error}") from None


def published(line: str) -> str:
    """The head node's host key as soon as it exists. Raises RemoteError."""
    if line.strip() == PENDING_HOST_KEY:
        raise RemoteError(
            "the head node has not booted yet", "try again in a minute; `gpucluster status` shows its state"
        )
    return line


def _verify(got: paramiko.PKey, expected: paramiko.PKey) -> None:
    if got != expected:
        raise RemoteError(
            f"the head node's host key is {got.fingerprint}, but it published {expected.fingerprint}: not connecting",
            "the connection may be intercepted, or the head node was replaced: compare with its console output",
        )


def _one_time_key() -> tuple[paramiko.PKey, str]:
    """A key for this connection only; it is stored nowhere."""
    import io

    import paramiko

    key = paramiko.Ed25519Key.from_private_key(io.StringIO(new_private_key()))
    return key, f"{key.get_name()} {key.get_base64()} gpucluster"


def new_private_key() -> str:
    """In OpenSSH's file format."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return (
        Ed25519PrivateKey.generate()
        .private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption())
        .decode()
    )


def _refused(error: Exception, tunnel: TunnelSocket, is_connected: bool) -> RemoteError:
    """paramiko raises AuthenticationException also if the connection ends before sshd has answered, or if sshd does not
    answer (AuthHandler.wait_for_response)."""
    import paramiko

    if isinstance(error, paramiko.AuthenticationException) and is_connected and "timeout" not in str(error):
        return RemoteError(
            "the head node refuses the key from EC2 Instance Connect",
            "see its boot log: does EC2 Instance Connect work there?",
        )
    if isinstance(error, paramiko.IncompatiblePeer):
        return RemoteError(
            "the head node does not offer the host key that it published",
            "it may have been replaced: see `gpucluster status`",
        )
    reason = tunnel.close_reason or str(error) or type(error).__name__
    return RemoteError(
        f"no SSH connection to the head node: {reason}", "`gpucluster status` shows whether it is running"
    )
