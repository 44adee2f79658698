"""TLS before a server of this machine that has none, as AWS's servers have it."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import ssl
import threading
from collections.abc import Iterator

from localcloud.testing.connect_proxy import join


@contextlib.contextmanager
def tls_front(context: ssl.SSLContext, target: tuple[str, int], port: int = 0) -> Iterator[int]:
    """The port of 127.0.0.1 at which `target` answers over TLS."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with (
                contextlib.suppress(OSError),
                context.wrap_socket(self.request, server_side=True) as client,
                socket.create_connection(target) as server,
            ):
                join(client, server)

    class Server(socketserver.ThreadingTCPServer):
        allow_reuse_address = True
        daemon_threads = True

    with Server(("127.0.0.1", port), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield server.server_address[1]
        server.shutdown()
