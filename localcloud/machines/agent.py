"""Answers requests of guests to the host: one Unix socket per guest, which also identifies the guest."""

from __future__ import annotations

import json
import os
import socket
import struct
import subprocess
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from localcloud.machines import shares

SOCKET_NAME = "host.sock"
LONGEST_REQUEST = 65536
_CREDENTIALS = struct.Struct("3i")


@dataclass(frozen=True)
class Peer:
    """The asking process, by its number on the host; user numbers are the same on host and guest."""

    pid: int
    uid: int


Handle = Callable[[Mapping[str, Any], Peer], Mapping[str, object]]
"""The answer to a request, besides `ok`. Raises ShareError; other errors if the request is not understood."""


class Agent:
    """Answers one guest. A request and its reply are one JSON object each, on one line."""

    def __init__(self, folder: Path, handle: Handle) -> None:
        self._handle = handle
        self._listener = _listen(folder)
        threading.Thread(target=self._accept, name=f"agent-{folder.parent.name}", daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            connection.settimeout(10)
            try:
                line = connection.makefile("rb").readline(LONGEST_REQUEST)
                reply = self._reply(line, _peer(connection))
                connection.sendall(json.dumps(reply).encode() + b"\n")
            except OSError:
                return

    def _reply(self, line: bytes, peer: Peer) -> dict[str, object]:
        try:
            answer = self._handle(json.loads(line), peer)
        except shares.ShareError as error:
            return {"error": str(error), "retry": error.retry}
        except (OSError, subprocess.TimeoutExpired) as error:  # of a machine that is busy or has no memory left
            return {"error": str(error), "retry": True}
        except (ValueError, KeyError, TypeError) as error:
            return {"error": f"request not understood: {error}", "retry": False}
        return {"ok": True, **answer}

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


def _listen(folder: Path) -> socket.socket:
    """Through the folder's descriptor, because a socket's path has at most 108 characters."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    descriptor = os.open(folder, os.O_PATH)
    try:
        (folder / SOCKET_NAME).unlink(missing_ok=True)
        listener.bind(f"/proc/self/fd/{descriptor}/{SOCKET_NAME}")
    finally:
        os.close(descriptor)
    # Users of the guest may ask too. Other users of this machine cannot come here: the state directory is closed, and
    # `nspawn.is_inside` refuses those who find the socket in /proc.
    (folder / SOCKET_NAME).chmod(0o666)
    listener.listen(16)
    return listener


def _peer(connection: socket.socket) -> Peer:
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _ = _CREDENTIALS.unpack(raw)
    return Peer(pid, uid)
