"""The launches that are under way, a file for each of Slurm's requests: a daemon that was killed completes them.

A call of RunInstances is recorded before EC2 gets it, until its instances have their names: made again with the same
token, it returns them. Users read in the files why a node waits (`gpucluster why`). /run is cleared at boot.
"""

from __future__ import annotations

import itertools
import json
import logging
import threading
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from gpucluster_node import files, fleet

log = logging.getLogger("journal")
FOLDER = Path("/run/gpucluster/launching")
_numbers = itertools.count(1)


@dataclass(frozen=True)
class Call:
    """nodes: for the instances in the order of their launch index."""

    token: str
    template: fleet.LaunchTemplate
    least: int
    most: int
    nodes: tuple[str, ...]


def _call(data: Mapping[str, Any]) -> Call:
    return Call(
        data["token"], fleet.LaunchTemplate(**data["template"]), data["least"], data["most"], tuple(data["nodes"])
    )


class Journal:
    """All launches of this process. Any thread may call."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self._folder = folder
        self._lock = threading.RLock()
        self._records: list[Record] = []

    def open(self, wanted: Iterable[str], jobs: Sequence[dict[str, Any]] = ()) -> Record:
        """jobs: Slurm's, for which the nodes are launched. Nodes of another launch are left to it."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with self._lock:
            others = self.nodes()
            mine = [node for node in wanted if node not in others]
            path = self._folder / f"{time.time_ns()}-{next(_numbers)}.json"
            return self._opened(Record(self, path, mine, jobs))

    def reopen(self) -> list[Record]:
        """The launches that an earlier process has not completed."""
        found = [self._opened(each) for path in sorted(self._folder.glob("*.json")) for each in self._unfinished(path)]
        for path in self._folder.glob(".*"):  # not written to its end
            path.unlink(missing_ok=True)
        return found

    def nodes(self) -> frozenset[str]:
        with self._lock:
            return frozenset(node for each in self._records for node in each.left)

    def tokens(self) -> frozenset[str]:
        """The tokens of calls, until their instances have their names."""
        with self._lock:
            return frozenset(token for each in self._records for token in each.calls)

    def closed(self, record: Record) -> None:
        with self._lock, suppress(ValueError):
            self._records.remove(record)

    def _opened(self, record: Record) -> Record:
        with self._lock:
            record.write()
            self._records.append(record)
        return record

    def _unfinished(self, path: Path) -> Iterable[Record]:
        """None for a file that is not ours, or has no nodes."""
        try:
            found = json.loads(path.read_text())
            calls = {call.token: call for call in map(_call, found["asked"])}
            if found["nodes"]:
                replays = int(found.get("replays", 0)) + 1
                yield Record(self, path, found["nodes"], found["jobs"], calls, found["waits"], replays)
                return
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            log.warning("%s is ignored: %s", path, error)
        path.unlink(missing_ok=True)


class Record:
    """The nodes of one request; each finished launch removes its nodes."""

    def __init__(
        self,
        journal: Journal,
        path: Path,
        mine: Sequence[str],
        jobs: Sequence[dict[str, Any]] = (),
        calls: Mapping[str, Call] | None = None,
        waits: Mapping[str, str] | None = None,
        replays: int = 0,
    ) -> None:
        """replays: how many processes have begun the launch before this one. calls, waits: of those."""
        self.journal, self.mine, self.jobs, self.replays = journal, list(mine), list(jobs), replays
        self.left = set(mine)
        self.calls = dict(calls or {})
        self._path, self._began = path, datetime.now(timezone.utc).isoformat()
        self._waits = dict(waits or {})
        self._lock = threading.RLock()

    def done(self, nodes: Collection[str]) -> None:
        """Removes nodes whose launch is completed: they have an instance with their name, or are set DOWN."""
        with self._lock:
            left = self.left.difference(nodes)
            self._waits = {node: why for node, why in self._waits.items() if node in left}
            self.calls = {token: call for token, call in self.calls.items() if left.intersection(call.nodes)}
            self.left = left
            self.write()

    def asked(self, call: Call) -> None:
        """Records a call before it is made, and then which of its nodes have got an instance, until those have their
        names."""
        with self._lock:
            kept = {token: each for token, each in self.calls.items() if token != call.token}
            self.calls = {**kept, call.token: call} if call.nodes else kept
            self.write()

    def waits(self, nodes: Collection[str], why: str) -> None:
        """Records why nodes are not launched yet. Users read it in `gpucluster why`."""
        with self._lock:
            if any(self._waits.get(node) != why for node in nodes):
                self._waits |= dict.fromkeys(nodes, why)
                self.write()

    def close(self) -> None:
        self._path.unlink(missing_ok=True)
        self.journal.closed(self)

    def write(self) -> None:
        with self._lock:
            found = {"began": self._began, "nodes": sorted(self.left), "waits": self._waits, "replays": self.replays}
            asked = [asdict(each) for each in self.calls.values()]
            files.put(self._path, json.dumps({**found, "asked": asked, "jobs": self.jobs}))
