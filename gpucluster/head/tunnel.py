"""The websocket of an EC2 Instance Connect Endpoint, with the interface of a socket for paramiko."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
from typing import TYPE_CHECKING

from gpucluster.errors import RemoteError

if TYPE_CHECKING:
    from websockets.exceptions import ConnectionClosed
    from websockets.sync.client import ClientConnection

# AWS's own client sends no larger frames.
_MAX_FRAME_BYTES = 65_000
_UNACKNOWLEDGED_S = 60
"""After this time without an acknowledgement the connection has ended: the laptop slept, or has another network.
Linux alone tries for 15 minutes (tcp_retries2). paramiko's keep-alive sends something every 30 s."""

_CLOSE_S = 2
"""How long a verb that ends waits for the endpoint's answer to its close."""
logging.getLogger("websockets").addHandler(logging.NullHandler())  # it logs tracebacks of errors that we report


def open_tunnel(url: str, *, timeout_s: float) -> TunnelSocket:
    """`url` is signed, so no message repeats it. Raises RemoteError."""
    from websockets.exceptions import InvalidStatus, WebSocketException
    from websockets.sync.client import connect

    try:
        # AWS's endpoint may not answer pings; SSH has its own keep-alive.
        websocket = connect(
            url, compression=None, open_timeout=timeout_s, close_timeout=_CLOSE_S, ping_interval=None, max_size=None
        )
    except InvalidStatus as error:
        status = error.response.status_code
        hint = "your AWS identity needs ec2-instance-connect:OpenTunnel" if status in (401, 403) else None
        raise RemoteError(f"the Instance Connect Endpoint refuses the tunnel: HTTP {status}", hint) from None
    except (WebSocketException, OSError) as error:
        reason = str(error) or type(error).__name__
        raise RemoteError(
            f"the Instance Connect Endpoint cannot be reached: {reason}", "is the cluster up? see `gpucluster status`"
        ) from None
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux
        with contextlib.suppress(OSError):  # the endpoint has closed it already: the next read has the reason
            websocket.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNACKNOWLEDGED_S * 1000)
    return TunnelSocket(websocket)


class TunnelSocket:
    def __init__(self, websocket: ClientConnection) -> None:
        self._websocket = websocket
        self._buffer = b""
        self._timeout_s: float | None = None
        self._closed = False  # paramiko reads this attribute of sockets when it stops
        self.close_reason = ""
        """The endpoint's message when it closed the tunnel."""

    def settimeout(self, timeout_s: float | None) -> None:
        self._timeout_s = timeout_s

    def gettimeout(self) -> float | None:
        return self._timeout_s

    def recv(self, size: int) -> bytes:
        """Empty at the end of the tunnel. Raises TimeoutError."""
        from websockets.exceptions import ConnectionClosed

        if not self._buffer:
            try:
                self._buffer = self._websocket.recv(timeout=self._timeout_s, decode=False)
            except ConnectionClosed as error:
                self._note_close(error)
                return b""
        data, self._buffer = self._buffer[:size], self._buffer[size:]
        return data

    def send(self, data: bytes) -> int:
        from websockets.exceptions import ConnectionClosed

        frame = bytes(data[:_MAX_FRAME_BYTES])
        try:
            self._websocket.send(frame)
        except ConnectionClosed as error:
            self._note_close(error)
            raise OSError("the tunnel is closed") from None
        return len(frame)

    def _note_close(self, error: ConnectionClosed) -> None:
        self.close_reason = error.rcvd.reason if error.rcvd else "the tunnel broke"

    def close(self) -> None:
        self._closed = True
        self._websocket.close()


def carry(tunnel: TunnelSocket, source: int, target: int) -> None:
    """Connects two files with the tunnel until one of the three ends. Raises RemoteError if the tunnel ended first."""
    ended = threading.Event()
    threading.Thread(target=_send, args=(source, tunnel, ended), daemon=True).start()
    with contextlib.suppress(BrokenPipeError):
        while data := tunnel.recv(_MAX_FRAME_BYTES):
            write(target, data)
        if tunnel.close_reason and not ended.is_set():
            raise RemoteError(f"the tunnel has ended: {tunnel.close_reason}")


def write(target: int, data: bytes) -> None:
    """All of it: a full pipe, or a signal during a write to a terminal, leaves a rest."""
    while data:
        data = data[os.write(target, data) :]


def _send(source: int, tunnel: TunnelSocket, ended: threading.Event) -> None:
    with contextlib.suppress(OSError):
        while data := os.read(source, _MAX_FRAME_BYTES):
            tunnel.send(data)
        ended.set()
    tunnel.close()
