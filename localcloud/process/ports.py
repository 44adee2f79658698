"""Ports of this machine: listens, and finds the process that has a port."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from localcloud.errors import UsageError

_LISTENING = "0A"


def listen(port: int) -> socket.socket:
    """A listening socket on loopback; UsageError names the port and, if visible, its process."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
    except OSError as error:
        listener.close()
        by = f" by {name}" if (name := holder(port)) else ""
        raise UsageError(f"port {port} of 127.0.0.1 is in use{by}; choose another with --port") from error
    listener.listen(128)
    return listener


def holder(port: int) -> str | None:
    """`NAME (pid N)` of the process that listens on a port; None if it is not visible."""
    inodes = {f"socket:[{inode}]" for table in ("tcp", "tcp6") for inode in _listening(table, port)}
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            if any(os.readlink(fd) in inodes for fd in (directory / "fd").iterdir()):
                return f"{(directory / 'comm').read_text().strip()} (pid {directory.name})"
        except OSError:
            continue  # it has ended, or belongs to another user
    return None


def _listening(table: str, port: int) -> list[str]:
    try:
        rows = [line.split() for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]]
    except OSError:
        return []
    return [row[9] for row in rows if row[3] == _LISTENING and int(row[1].rpartition(":")[2], 16) == port]
