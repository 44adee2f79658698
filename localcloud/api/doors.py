"""Refuses requests of web pages, and requests under a foreign host name, before anything else is checked.

A browser sends Origin with requests that a page of another site makes. A page whose own name was made to resolve to
this address (DNS rebinding) sends that name as Host.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

_LOOPBACK = re.compile(r"(127\.\d+\.\d+\.\d+|\[::1\]|([a-z0-9.-]+\.)?localhost)(:\d+)?", re.IGNORECASE)
_SOCKETS = Path("/proc/net/tcp")
_ESTABLISHED = "01"


def refuses(host: str, origin: str | None, own_hosts: Iterable[str] = ()) -> str | None:
    """Why a request is refused, or None. `own_hosts`: names of the server besides those of loopback."""
    if origin is not None:
        return "requests of web pages (with an Origin) are refused"
    if host.lower() in own_hosts or (not own_hosts and _LOOPBACK.fullmatch(host)):
        return None
    return f"the Host {host!r} is not this server's: use its address, as `python -m localcloud env` prints it"


def is_owners(client: tuple[str, int], server: tuple[str, int], sockets: str | None = None) -> bool:
    """Whether the process at the other end of a connection on loopback is this user's, or root's.

    `sockets`: the text of /proc/net/tcp.
    """
    wanted = [_as_kernel(*client), _as_kernel(*server), _ESTABLISHED]
    for line in (sockets or _SOCKETS.read_text()).splitlines()[1:]:
        fields = line.split()
        # Only an open connection has its user: the kernel reports 0 after the client has closed it.
        if fields[1:4] == wanted:
            return int(fields[7]) in (0, os.geteuid())
    return False


def _as_kernel(address: str, port: int) -> str:
    """As /proc/net/tcp writes an address: in the machine's byte order."""
    return f"{int.from_bytes(bytes(map(int, address.split('.'))), 'little'):08X}:{port:04X}"
