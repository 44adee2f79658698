"""Ports for a local cloud that a test starts."""

from __future__ import annotations

import socket


def two_free_ports() -> tuple[int, int]:
    """Of an API and of its tunnel: neighbours, both free."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port: int = first.getsockname()[1]
            try:
                second.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
            return port, port + 1
