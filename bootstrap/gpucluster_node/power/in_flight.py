"""Records the nodes that a running ResumeProgram is still launching, and why a node waits. Each program writes a file;
programs that watch nodes, and `gpucluster why`, read all files.

A program holds a lock on its file until it ends. A file without a lock is from a program that has ended. Locks and /run
are cleared at boot.
"""

from __future__ import annotations

import fcntl
import json
import os
import threading
from collections.abc import Collection, Iterable
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import IO, Any

FOLDER = Path("/run/gpucluster/launching")


class Record:
    """The nodes of this process; each finished launch removes its nodes. Any thread may call."""

    def __init__(self, nodes: Iterable[str], folder: Path = FOLDER) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / f"{os.getpid()}.json"
        self._nodes, self._began = set(nodes), datetime.now(timezone.utc).isoformat()
        self._waits: dict[str, str] = {}
        self._lock = threading.Lock()
        self._held = self._write()

    def done(self, nodes: Collection[str]) -> None:
        """Removes nodes whose launch is completed: they have an instance with their name, or are set DOWN."""
        with self._lock:
            self._nodes.difference_update(nodes)
            self._waits = {node: why for node, why in self._waits.items() if node in self._nodes}
            self._replace()

    def waits(self, nodes: Collection[str], why: str) -> None:
        """Records why nodes are not launched yet. Users read it in `gpucluster why`."""
        with self._lock:
            if any(self._waits.get(node) != why for node in nodes):
                self._waits |= dict.fromkeys(nodes, why)
                self._replace()

    def close(self) -> None:
        self._path.unlink(missing_ok=True)
        self._held.close()

    def _replace(self) -> None:
        before, self._held = self._held, self._write()
        before.close()

    def _write(self) -> IO[str]:
        """Locked before it gets its name, so nobody sees it incomplete, or unlocked."""
        new = self._path.with_suffix(".new")
        file = new.open("w")
        fcntl.flock(file, fcntl.LOCK_EX)
        json.dump({"began": self._began, "nodes": sorted(self._nodes), "waits": self._waits}, file)
        file.flush()
        new.replace(self._path)
        return file


def nodes(folder: Path = FOLDER) -> frozenset[str]:
    """The nodes of all running programs."""
    return frozenset(node for each in _alive(folder) for node in each["nodes"])


def since(folder: Path = FOLDER) -> datetime | None:
    """When the oldest running program started."""
    return min((datetime.fromisoformat(each["began"]) for each in _alive(folder)), default=None)


def _alive(folder: Path) -> list[dict[str, Any]]:
    return [found for path in sorted(folder.glob("*.json")) if (found := _read(path))]


def _read(path: Path) -> dict[str, Any] | None:
    with suppress(FileNotFoundError), path.open() as file:
        if _is_held(file):
            found: dict[str, Any] = json.load(file)
            return found
        if os.stat(path).st_ino != os.fstat(file.fileno()).st_ino:
            return _read(path)  # replaced since it was opened
        path.unlink()
    return None


def _is_held(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False
