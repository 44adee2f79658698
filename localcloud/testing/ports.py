"""Ports for a local cloud that a test starts."""

from __future__ import annotations

import random
import socket

PORTS = range(12000, 32000, 2)
"""Below the kernel's range for outgoing connections, so that nobody else takes one before the local cloud does."""


def two_free_ports() -> tuple[int, int]:
    """The ports of an API and of its tunnel: neighbours, both free."""
    own = random.SystemRandom()
    while True:
        port = own.choice(PORTS)
        with socket.socket() as first, socket.socket() as second:
            try:
                first.bind(("127.0.0.1", port))
                second.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
            return port, port + 1
