"""Records the nodes that a running ResumeProgram is still launching, and why a node waits. Each program writes a file,
and one for each other program whose nodes it launches (`offers`); programs that watch nodes, and `gpucluster why`, read
all files.

A program holds a lock while its file is there, and removes the file when it ends. A file without a lock is from a
program that was killed: reconcile starts its launches again. Users may read the file and so could lock it, therefore
the lock is a file of its own. Locks and /run are cleared at boot.
"""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from gpucluster_node import files, locks
from gpucluster_node.power.asked import Call

FOLDER = Path("/run/gpucluster/launching")
_LOCKS, _ALL = "locks", "all"
_numbers = itertools.count(1)


class Record:
    """The nodes of one ResumeProgram; each finished launch removes its nodes. Any thread may call."""

    def __init__(
        self,
        wanted: Iterable[str],
        folder: Path = FOLDER,
        jobs: Sequence[dict[str, Any]] = (),
        *,
        again: bool = False,
    ) -> None:
        """jobs: Slurm's, for which the nodes are launched. again: the launch of a killed program is repeated."""
        (folder / _LOCKS).mkdir(mode=0o700, parents=True, exist_ok=True)
        self._path = folder / f"{os.getpid()}-{next(_numbers)}.json"
        self._jobs, self._again, self._began = list(jobs), again, _now()
        self._waits: dict[str, str] = {}
        self._asked: dict[str, Call] = {}
        self._lock = threading.Lock()
        with locks.held(folder / _LOCKS / _ALL):  # of two programs that start together, one sees the other's nodes
            others = {node for each in _alive(folder) for node in each["nodes"]}
            self.mine = [node for node in wanted if node not in others]
            self._nodes = set(self.mine)
            self._held = locks.opened(_lock_of(self._path))
            locks.wait(self._held, _lock_of(self._path))
            self._write()

    def done(self, nodes: Collection[str]) -> None:
        """Removes nodes whose launch is completed: they have an instance with their name, or are set DOWN."""
        with self._lock:
            self._nodes.difference_update(nodes)
            self._waits = {node: why for node, why in self._waits.items() if node in self._nodes}
            self._asked = {token: call for token, call in self._asked.items() if self._nodes.intersection(call.nodes)}
            self._write()

    def asked(self, call: Call) -> None:
        """Records a call before it is made, and then which of its nodes have got an instance, until those have their
        names."""
        with self._lock:
            self._asked[call.token] = call
            if not call.nodes:
                del self._asked[call.token]
            self._write()

    def waits(self, nodes: Collection[str], why: str) -> None:
        """Records why nodes are not launched yet. Users read it in `gpucluster why`."""
        with self._lock:
            if any(self._waits.get(node) != why for node in nodes):
                self._waits |= dict.fromkeys(nodes, why)
                self._write()

    def close(self) -> None:
        """The file goes first: without the lock it would be a killed program's."""
        forget([self._path])
        self._held.close()

    def _write(self) -> None:
        found = {"began": self._began, "nodes": sorted(self._nodes), "waits": self._waits}
        asked = [each.written() for each in self._asked.values()]
        files.put(self._path, json.dumps({**found, "asked": asked, "jobs": self._jobs, "again": self._again}))


def _lock_of(path: Path) -> Path:
    return path.parent / _LOCKS / path.stem


def nodes(folder: Path = FOLDER) -> frozenset[str]:
    """The nodes of all running programs."""
    return frozenset(node for each in _alive(folder) for node in each["nodes"])


def tokens(folder: Path = FOLDER) -> frozenset[str]:
    """The tokens of the running programs' calls, until the instances of a call have their names."""
    return frozenset(call["token"] for each in _alive(folder) for call in each["asked"])


def _now() -> str:
    return datetime.now(timezone.utc).isoformat()


def killed(folder: Path = FOLDER) -> dict[Path, dict[str, Any]]:
    """File -> what a killed program has recorded in it, until `forget`."""
    found = {path: content for path, content, is_held in _files(folder) if not is_held}
    forget(path for path, content in found.items() if not content.get("nodes"))
    return {path: content for path, content in found.items() if content.get("nodes")}


def forget(paths: Iterable[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)
        _lock_of(path).unlink(missing_ok=True)


def _alive(folder: Path) -> list[dict[str, Any]]:
    return [content for _, content, is_held in _files(folder) if is_held]


def _files(folder: Path) -> Iterator[tuple[Path, dict[str, Any], bool]]:
    """Each file, its content, and whether its program is running."""
    for path in sorted(folder.glob("*.json")):
        with suppress(FileNotFoundError):
            yield path, *_read(path)


def _read(path: Path) -> tuple[dict[str, Any], bool]:
    """Looks at the lock first: a program that ends between the two looks has removed its file."""
    is_held = _is_held(_lock_of(path))
    return _parsed(path.read_text()), is_held


def _is_held(lock: Path) -> bool:
    try:
        with lock.open() as file:
            return not locks.take(file, fcntl.LOCK_SH)
    except FileNotFoundError:
        return False


def _parsed(text: str) -> dict[str, Any]:
    with suppress(ValueError):
        found = json.loads(text)
        return found if isinstance(found, dict) else {}
    return {}
