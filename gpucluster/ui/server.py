"""Listens on loopback, says the address when it answers there, and serves until Ctrl-C."""

from __future__ import annotations

import errno
import socket

import uvicorn
from starlette.types import ASGIApp

from gpucluster.errors import UsageError
from gpucluster.ui.guard import Guard

HOST = "127.0.0.1"


def listen(port: int | None) -> socket.socket:
    """On a free port by default. Raises UsageError."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port or 0))
        listener.listen(128)
    except OSError as error:
        listener.close()
        if error.errno in (errno.EADDRINUSE, errno.EACCES):
            why = "in use" if error.errno == errno.EADDRINUSE else "reserved for root"
            wrong = f"--port {port}: that port of this machine is {why}"
            raise UsageError(wrong, "without --port it is a free one") from None
        raise
    return listener


def address(listener: socket.socket, guard: Guard) -> str:
    return f"http://{HOST}:{listener.getsockname()[1]}/?token={guard.token}"


def config(app: ASGIApp, *, debug: bool = False) -> uvicorn.Config:
    """debug: errors of our own are shown with their tracebacks on stderr."""
    return uvicorn.Config(
        app,
        log_config=None,
        log_level="error" if debug else "critical",
        access_log=False,
        lifespan="off",
        server_header=False,
        timeout_graceful_shutdown=1,  # the streams of open tabs never end by themselves
    )


def serve(guard: Guard, listener: socket.socket, *, debug: bool = False) -> None:
    """Until a signal, which it raises again."""
    uvicorn.Server(config(guard, debug=debug)).run(sockets=[listener])
