"""Records from when until when each instance of the cluster ran, for `gpucluster cost`: `spending` forgets it at the
month's end, and AWS an hour after the instance.

nodes.jsonl has a line for each instance that has ended, nodes-now.json those that run. Both are on the data volume. An
instance that EC2's answer omits once, and has again, gets a second line: readers take the later end.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

from gpucluster_node import ec2, files, fleet, imds

log = logging.getLogger("lifetimes")
EVERY = timedelta(seconds=60)
MOST_BYTES = 16 * 1024 * 1024
"""About 80,000 instances. Then the older half of the file is dropped."""
HEAD = "head"
CORRECTED_S = 30.0
Key = tuple[str, float]
"""Instance id and launch: a head node that was stopped has the same id again."""


@dataclass(frozen=True)
class Life:
    """Times in seconds since 1970. node: empty if the instance has not got its name yet."""

    instance: str
    node: str
    type: str
    purchase: str
    launched: float
    seen: float
    """When EC2 last listed it. AWS bills an instance until it shuts down, in seconds (EC2's guide, on-demand
    instances)."""

    @property
    def key(self) -> Key:
        return self.instance, self.launched

    def is_about(self, other: Life) -> bool:
        """Whether it is the same boot: the kernel derives its time from the clock, which may be corrected."""
        return self.instance == other.instance and abs(self.launched - other.launched) < CORRECTED_S


def ended_in(folder: Path) -> Path:
    return folder / "nodes.jsonl"


def running_in(folder: Path) -> Path:
    return folder / "nodes-now.json"


class Lifetimes:
    """`spending` calls `look` in each round of reconcile."""

    def __init__(self, cluster: fleet.Fleet, folder: Path, head: Life | None = None) -> None:
        """head: this machine, since its boot."""
        self._cluster, self._folder, self._head = cluster, folder, head
        self._running: dict[Key, Life] | None = None
        self._written = 0.0

    def look(self, instances: Sequence[ec2.Instance], now: datetime) -> None:
        """instances: all of the cluster's nodes that live. Raises OSError."""
        at = now.timestamp()
        if self._running is None:
            self._running = self._begin(at)
        found = [self._life(each, at) for each in instances]
        found += [replace(self._head, seen=at)] if self._head else []
        running = {each.key: each for each in found}
        gone = [life for key, life in self._running.items() if key not in running]
        if gone:
            self._end(gone)
        if gone or running.keys() != self._running.keys() or at - self._written >= EVERY.total_seconds():
            files.put(running_in(self._folder), json.dumps([asdict(each) for each in running.values()]))
            self._written = at
        self._running = running

    def _life(self, instance: ec2.Instance, at: float) -> Life:
        partition = self._cluster.partition_of(instance.node or "")
        purchase = partition.purchase if partition else ""
        launched = instance.launch_time.timestamp()
        return Life(instance.instance_id, instance.node or "", instance.instance_type, purchase, launched, at)

    def _begin(self, at: float) -> dict[Key, Life]:
        """Returns what ran when the last process ended. The first line of the other file says since when instances are
        recorded."""
        if not ended_in(self._folder).exists():
            files.put(ended_in(self._folder), json.dumps({"since": at}) + "\n")
        running = _read(running_in(self._folder))
        for life in running.values():
            if self._head and self._head.is_about(life):
                self._head = replace(self._head, launched=life.launched)
        return running

    def _end(self, lives: Iterable[Life]) -> None:
        file = ended_in(self._folder)
        with file.open("a") as out:
            out.write("".join(f"{json.dumps(asdict(life))}\n" for life in lives))
        if file.stat().st_size > MOST_BYTES:
            lines = file.read_text().splitlines(keepends=True)
            newer = lines[len(lines) // 2 :]
            files.put(file, json.dumps({"since": _seen(newer[0])}) + "\n" + "".join(newer))


def _seen(line: str) -> float:
    return float(json.loads(line)["seen"])


def _read(file: Path) -> dict[Key, Life]:
    try:
        found = [_checked(each) for each in json.loads(file.read_text())] if file.exists() else []
    except (ValueError, TypeError, LookupError) as error:
        log.error("%s cannot be read: %s; the ends of its instances are not known", file, error)
        return {}
    return {each.key: each for each in found}


def _checked(data: Mapping[str, object]) -> Life:
    life = Life(**data)  # type: ignore[arg-type]
    return replace(life, launched=float(life.launched), seen=float(life.seen))


def this_machine() -> Life | None:
    """The head node, since its boot. None if the metadata service does not answer."""
    try:
        return Life(imds.instance_id(), HEAD, imds.ask("meta-data/instance-type"), "on-demand", _booted(), 0.0)
    except (OSError, ValueError, LookupError) as error:
        log.warning("the head node's own hours are not recorded: %s", error)
        return None


def _booted() -> float:
    """When process 1 began, in whole seconds: in a container, /proc/stat has the boot of the host (proc(5): btime;
    /proc/PID/stat: starttime, the 22nd field, in clock ticks)."""
    btime = next(line for line in Path("/proc/stat").read_text().splitlines() if line.startswith("btime "))
    after_name = Path("/proc/1/stat").read_text().rpartition(")")[2].split()
    return float(int(btime.split()[1]) + int(after_name[19]) // os.sysconf("SC_CLK_TCK"))
