"""Prints by how many seconds this node's clock is ahead of Amazon's time service. usage: clock [ADDRESS PORT]

It asks the service itself, not chronyd, ntpd or timesyncd: every instance reaches the service, without a route to the
internet, and whatever the image runs (EC2's guide, set-time). One packet of SNTP (RFC 4330) is exact to milliseconds.
"""

from __future__ import annotations

import socket
import struct
import sys
import time

SERVICE = "169.254.169.123"
PORT = 123
TRIES = 3
TIMEOUT_S = 2.0
_EPOCH_S = 2208988800
"""NTP counts seconds since 1900 (RFC 5905, section 6)."""
_CLIENT, _SERVER = 0x23, 4
"""Version 4, mode 3; mode 4."""
_NOT_SYNCHRONIZED = 3


def ahead_s(address: str = SERVICE, port: int = PORT) -> float:
    """Raises OSError if the service does not answer, ValueError if it does not know the time."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.settimeout(TIMEOUT_S)
        asking.connect((address, port))
        for last in (False,) * (TRIES - 1) + (True,):
            sent = time.time()
            asking.send(bytes([_CLIENT]) + bytes(39) + _stamp(sent))
            try:
                answer, received = asking.recv(512), time.time()
                return (sent + received) / 2 - server_epoch_s(answer, _stamp(sent))
            except TimeoutError:
                if last:
                    raise
    raise AssertionError("the last try returns or raises")


def server_epoch_s(answer: bytes, asked: bytes) -> float:
    """The time in the middle of the server's work. asked: the request's own stamp, which the answer repeats."""
    if len(answer) < 48 or answer[0] & 7 != _SERVER or answer[24:32] != asked:
        raise ValueError(f"not an answer of a time server: {answer[:48].hex()}")
    if answer[0] >> 6 == _NOT_SYNCHRONIZED or answer[1] == 0:
        raise ValueError("the time server does not know the time")
    return (_epoch_s(answer[32:40]) + _epoch_s(answer[40:48])) / 2


def _stamp(epoch_s: float) -> bytes:
    return struct.pack("!II", (int(epoch_s) + _EPOCH_S) & 0xFFFFFFFF, int(epoch_s % 1 * 2**32))


def _epoch_s(stamp: bytes) -> float:
    """Takes the era that is nearest to this clock: the seconds begin again at 0 in 2036."""
    seconds, fraction = struct.unpack("!II", stamp)
    era = round((time.time() + _EPOCH_S - seconds) / 2**32)
    return float(era * 2**32 + seconds - _EPOCH_S + fraction / 2**32)


if __name__ == "__main__":
    where, which = sys.argv[1:] or (SERVICE, PORT)
    print(f"{ahead_s(where, int(which)):+.3f}")
