"""The Amazon Time Sync Service of a VPC: NTP at 169.254.169.123, with this machine's clock."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable

PORT = 123
_HEADER = struct.Struct("!BBBbII4s")
_CLIENT, _SERVER = 3, 4
_STRATUM = 3  # `chronyc sources` on EC2 shows 3 for 169.254.169.123 (zulip/zulip#21564, scylladb/scylladb#13344)
_PRECISION = -20
_SHORT = 16  # root delay and root dispersion: a quarter of a millisecond, in units of 2^-16 s
_EPOCH_S = 2208988800  # NTP counts seconds since 1900 (RFC 5905, section 6)

Ahead = Callable[[str], float]
"""Address of a client -> by how many seconds its clock shall seem to be ahead."""


def answer(request: bytes, now_epoch_s: float) -> bytes | None:
    """RFC 5905, section 7.3. None if the packet is not a client's request."""
    if len(request) < 48 or request[0] & 7 != _CLIENT:
        return None
    version, poll, now = request[0] & 0x38, request[2], _stamp(now_epoch_s)
    header = _HEADER.pack(version | _SERVER, _STRATUM, poll, _PRECISION, _SHORT, _SHORT, socket.inet_aton("10.0.0.1"))
    return header + _stamp(now_epoch_s - 1) + request[40:48] + now + now


def _stamp(epoch_s: float) -> bytes:
    return struct.pack("!II", (int(epoch_s) + _EPOCH_S) & 0xFFFFFFFF, int(epoch_s % 1 * 2**32))


def serve(listener: socket.socket, ahead: Ahead) -> None:
    """Answers in its own thread until `end`."""
    threading.Thread(target=_serve, args=(listener, ahead), name="time", daemon=True).start()


def end(listener: socket.socket) -> None:
    with contextlib.suppress(OSError):  # it says that nobody is connected, and wakes the thread
        listener.shutdown(socket.SHUT_RDWR)
    listener.close()


def _serve(listener: socket.socket, ahead: Ahead) -> None:
    while True:
        try:
            request, client = listener.recvfrom(512)
            if not request:
                return
            if found := answer(request, time.time() - ahead(client[0])):
                listener.sendto(found, client)
        except OSError:
            return
