"""Running commands on the head node: over SSH through an EC2 Instance Connect Endpoint.

Who the head node is, and what opens the way to it, is a `Door` (see `gpucluster.cluster.aws`). Imports paramiko only
when it connects.
"""

from __future__ import annotations

import base64
import contextlib
import logging
import shlex
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from gpucluster.errors import RemoteError
from gpucluster.head.tunnel import TunnelSocket, open_tunnel

if TYPE_CHECKING:
    import paramiko

PENDING_HOST_KEY = "pending"
USER = "ubuntu"
CONNECT_TIMEOUT_S = 30.0
_IDLE_S = 0.5
"""How long `follow` waits for more before it asks whether to stop."""
_ATTEMPTS = 3
_MISSING = "No module named 'gpucluster_node"
OTHER_VERSION = "the head node has another version of GpuCluster: `gpucluster up` updates it"


@dataclass(frozen=True)
class Completed:
    exit_code: int
    stdout: str
    stderr: str

    def check(self, what: str) -> Completed:
        """Itself where the command succeeded. Raises RemoteError: `what`, and the command's own words."""
        if self.exit_code != 0:
            said = (self.stderr.strip() or self.stdout.strip() or "no output").splitlines()[-1]
            raise RemoteError(
                f"{what}: exit code {self.exit_code}: {said}", OTHER_VERSION if _MISSING in said else None
            )
        return self


class Remote(Protocol):
    def run(self, argv: Sequence[str], *, input: bytes | None = None, timeout_s: float = 60) -> Completed: ...

    def put(self, data: bytes, path: str, mode: int = 0o644) -> None:
        """Appears under its name whole, with its mode from the first byte."""
        ...

    def get(self, path: str) -> bytes: ...

    def follow(self, path: str, *, stop: Callable[[], bool]) -> Iterator[str]:
        """Each line once, without its end, from the first on. Asks `stop` when nothing new came."""
        ...

    def close(self) -> None: ...


class Way(Protocol):
    """What AWS does to let a connection reach one instance."""

    def tunnel_url(self) -> str:
        """Signed, good for a minute."""
        ...

    def push_key(self, public_key: str) -> None:
        """The instance takes it for 60 seconds."""
        ...


class Door(Way, Protocol):
    """The way to the head node, and what AWS says of that."""

    def host_key(self) -> str:
        """`ssh-ed25519 AAAA…`, or PENDING_HOST_KEY before the head has booted."""
        ...


class SshRemote:
    """Connects when it is first used, and again when the tunnel has ended: AWS ends each after an hour."""

    def __init__(self, door: Door, user: str = USER) -> None:
        self._door = door
        self._user = user
        self._transport: paramiko.Transport | None = None
        self._lock = threading.Lock()

    def run(self, argv: Sequence[str], *, input: bytes | None = None, timeout_s: float = 60) -> Completed:
        exit_code, out, error = self._execute(argv, input, timeout_s)
        return Completed(exit_code, out.decode(errors="replace"), error.decode(errors="replace"))

    def put(self, data: bytes, path: str, mode: int = 0o644) -> None:
        script = 'umask 077 && cat >"$1.new" && chmod "$2" "$1.new" && mv "$1.new" "$1"'
        self.run(["sh", "-c", script, "sh", path, f"{mode:o}"], input=data).check(
            f"cannot write {path} on the head node"
        )

    def get(self, path: str) -> bytes:
        exit_code, out, error = self._execute(["cat", "--", path], None, 60)
        Completed(exit_code, "", error.decode(errors="replace")).check(f"cannot read {path} on the head node")
        return out

    def follow(self, path: str, *, stop: Callable[[], bool]) -> Iterator[str]:
        """Survives the end of the tunnel: it goes on at the byte where it was."""
        offset, rest = 0, b""
        while True:
            for data in self._tail(path, offset, stop):
                if data is None:
                    yield from _last_line(rest)
                    return
                offset += len(data)
                *lines, rest = (rest + data).split(b"\n")
                yield from (line.decode(errors="replace") for line in lines)

    def close(self) -> None:
        with self._lock:
            if self._transport:
                self._transport.close()
            self._transport = None

    def session(self) -> paramiko.Channel:
        """A new channel; connects first where there is no connection. Raises RemoteError."""
        import paramiko

        for _ in range(_ATTEMPTS):
            with contextlib.suppress(paramiko.SSHException, OSError, EOFError):
                return self._connected().open_session(timeout=CONNECT_TIMEOUT_S)
            self.close()
        raise RemoteError("the head node refuses a session", "try again; `gpucluster status` shows its state")

    def _connected(self) -> paramiko.Transport:
        with self._lock:
            if self._transport is None or not self._transport.is_active():
                self._transport = connect(self._door, self._user)
            return self._transport

    def _execute(self, argv: Sequence[str], input: bytes | None, timeout_s: float) -> tuple[int, bytes, bytes]:
        """A command that was sent is never sent twice: if the connection breaks then, that is an error."""
        channel = self.session()
        channel.settimeout(timeout_s)
        what = f"`{shlex.join(argv)[:80]}` on the head node"
        try:
            channel.exec_command(shlex.join(argv))
            error = _Reader(channel.recv_stderr)
            if input is not None:
                channel.sendall(input)
            channel.shutdown_write()
            # Output before the exit status: with a full window the command cannot end before it is read.
            out = b"".join(iter(lambda: channel.recv(65536), b""))
            if not channel.status_event.wait(timeout_s):
                raise TimeoutError
            exit_code = channel.recv_exit_status()
        except TimeoutError:
            raise RemoteError(f"{what} did not finish within {timeout_s:.0f} s") from None
        except (OSError, EOFError) as problem:
            raise RemoteError(f"{what}: the connection broke: {problem}") from None
        finally:
            channel.close()
        if exit_code < 0:
            raise RemoteError(f"{what}: the connection broke before it finished")
        return exit_code, out, error.text()

    def _tail(self, path: str, offset: int, stop: Callable[[], bool]) -> Iterator[bytes | None]:
        """What the file has from `offset` on; None: that is all. Ends early where the connection does."""
        channel = self.session()
        channel.settimeout(_IDLE_S)
        # stdin ends with the connection, and `tail` with it: on its own it would stay until the file grows
        script = 'tail --bytes="+$1" -f "$2" & cat >/dev/null; kill $!'
        try:
            channel.exec_command(shlex.join(["sh", "-c", script, "sh", str(offset + 1), path]))
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
        except (OSError, EOFError):
            return
        finally:
            channel.close()


def connect(door: Door, user: str) -> paramiko.Transport:
    """A verified, authenticated connection. Raises RemoteError."""
    import paramiko

    # paramiko logs tracebacks of what we report in one line
    logging.getLogger("paramiko").addHandler(logging.NullHandler())
    expected = _host_key(door.host_key())
    key, public_key = _one_time_key()
    door.push_key(public_key)
    tunnel = open_tunnel(door.tunnel_url(), timeout_s=CONNECT_TIMEOUT_S)
    try:
        transport = paramiko.Transport(tunnel)  # any object with recv and send will do
        transport.get_security_options().key_types = [expected.get_name()]
        transport.start_client(timeout=CONNECT_TIMEOUT_S)
        _verify(transport.get_remote_server_key(), expected)
        transport.auth_publickey(user, key)
    except (paramiko.SSHException, OSError, EOFError) as error:
        tunnel.close()
        raise _refused(error, tunnel) from None
    # The tunnel would be closed as idle; and a connection that died is noticed.
    transport.set_keepalive(30)
    return transport


def _host_key(line: str) -> paramiko.PKey:
    import paramiko

    try:
        name, encoded = published(line).split()[:2]
        return paramiko.PKey.from_type_string(name, base64.b64decode(encoded))
    except (ValueError, paramiko.SSHException) as error:
        raise RemoteError(f"the head node's published host key cannot be read: {error}") from None


def published(line: str) -> str:
    """The head node's host key, once there is one. Raises RemoteError."""
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
    """Made for this connection, kept nowhere."""
    import io

    import paramiko

    key = paramiko.Ed25519Key.from_private_key(io.StringIO(new_private_key()))
    return key, f"{key.get_name()} {key.get_base64()} gpucluster"


def new_private_key() -> str:
    """As OpenSSH writes it into a file."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return (
        Ed25519PrivateKey.generate()
        .private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption())
        .decode()
    )


def _refused(error: Exception, tunnel: TunnelSocket) -> RemoteError:
    import paramiko

    if isinstance(error, paramiko.AuthenticationException):
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


def _last_line(rest: bytes) -> Iterator[str]:
    if rest:
        yield rest.decode(errors="replace")


class _Reader(threading.Thread):
    """Reads a stream to its end beside the one that is being read."""

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
