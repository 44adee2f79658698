"""Serves HTTP on a socket that listens already, in a network of machines."""

from __future__ import annotations

import http.server
import socket
import threading


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True


def serve(
    listener: socket.socket, handler: type[http.server.BaseHTTPRequestHandler], thread: str
) -> http.server.HTTPServer:
    """Answers in a thread of this name until the server is shut down."""
    server = _Server(listener.getsockname(), handler, bind_and_activate=False)
    server.socket.close()
    server.socket = listener
    threading.Thread(target=server.serve_forever, name=thread, daemon=True).start()
    return server
