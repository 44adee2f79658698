"""An HTTP proxy for tests in which nothing boots, and so no proxy program is installed. It records its requests."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import threading
from collections.abc import Callable
from urllib.parse import urlsplit

Target = Callable[[str, int], tuple[str, int]]


class ConnectProxy:
    """CONNECT, and plain requests with a whole URL, of which it serves one in each connection.

    `target` decides where a host and a port really are: AWS's names lead to a local cloud.
    """

    def __init__(self, target: Target = lambda host, port: (host, port), *, refuses: bool = False) -> None:
        self.target, self._refuses = target, refuses
        self.requests: list[str] = []
        """The method and host:port of each."""
        self._server = _Server(("127.0.0.1", 0), self._handler())
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def hosts(self) -> list[str]:
        """Those of CONNECT."""
        return [each.partition(" ")[2] for each in self.requests if each.startswith("CONNECT ")]

    def __enter__(self) -> ConnectProxy:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[socketserver.BaseRequestHandler]:
        proxy = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                proxy._serve(self.request)

        return Handler

    def _serve(self, client: socket.socket) -> None:
        head, rest = _read_head(client)
        if not head:
            return
        line, _, headers = head.partition(b"\r\n")
        method, where, version = line.split()
        parts = urlsplit(f"//{where.decode()}" if method == b"CONNECT" else where.decode())
        host, port = parts.hostname or "", parts.port or 80
        self.requests.append(f"{method.decode()} {host}:{port}")
        if self._refuses:
            client.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
            return
        with contextlib.closing(socket.create_connection(self.target(host, port))) as server:
            if method == b"CONNECT":
                client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                path = f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}".encode()
                server.sendall(b" ".join((method, path, version)) + b"\r\n" + _closing(headers))
            server.sendall(rest)
            join(client, server)


def join(one: socket.socket, other: socket.socket) -> None:
    """Until both have ended."""
    back = threading.Thread(target=_copy, args=(other, one), daemon=True)
    back.start()
    _copy(one, other)
    back.join()


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


def _read_head(client: socket.socket) -> tuple[bytes, bytes]:
    """The head of the request, and what came after it."""
    data = b""
    while b"\r\n\r\n" not in data:
        if not (chunk := client.recv(65536)):
            return b"", b""
        data += chunk
    head, _, rest = data.partition(b"\r\n\r\n")
    return head, rest


def _closing(headers: bytes) -> bytes:
    """One request in a connection: the next one may be for another host."""
    kept = [line for line in headers.split(b"\r\n") if not line.lower().startswith((b"connection:", b"proxy-"))]
    return b"\r\n".join([*kept, b"Connection: close", b"", b""])


def _copy(source: socket.socket, to: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            to.sendall(data)
    with contextlib.suppress(OSError):
        to.shutdown(socket.SHUT_WR)
