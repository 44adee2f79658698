"""Counts instances that failed their boot or their checks. After three failures in a row of one instance type, launches
of the type pause. Each further pause is twice as long, until an instance of the type passes its checks. A few bad
instances among many that were launched together pause nothing.

reconcile writes the count to a file. Launches read the paused types from it, and `gpucluster why` reads the
failed nodes. A cluster is in one zone, so the count of a type is about that zone only.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from gpucluster_node import ec2, files, slurm

log = logging.getLogger("failing")
PATH = Path("/run/gpucluster/failures.json")
IN_A_ROW = 3
OTHERS = 3
"""So many other instances for each that failed show that the type works."""
TOGETHER = timedelta(minutes=1)
"""Instances of one call have the same launch time, and a job's nodes may take several calls."""
PAUSE = timedelta(minutes=10)
"""Length of the first pause. Afterwards EC2 may launch on other hardware."""
LONGEST_PAUSE = timedelta(hours=4)
PASSED = timedelta(seconds=90)
"""An instance that is in service this long after a job began to run on it has passed the job's checks. The checks take
up to 60 s. Slurm begins them when all nodes of the job have booted and the job is no longer CONFIGURING."""
KEPT = timedelta(hours=1)
CHECKED = "health: "
"""The reason of a node that failed a check begins with this."""
PLANNED = f"{CHECKED}EC2 plans"
"""EC2 will stop or reboot a node with such a reason. The node has not failed."""
STORAGE = f"{CHECKED}storage: "
"""Such a reason proves nothing about the hardware: a file system cannot be mounted, or a program before a job hangs."""
PREFLIGHT = f"{CHECKED}preflight of job "
"""A job's own user wrote such a reason (health/drain_broken.py), and must not stop the launches of others."""
SHARED_STEPS = frozenset(
    [
        "beegfs",
        "container_runtime",
        "home_mount",
        "job_lustre",
        "job_ram",
        "lustre_client",
        "lustre_efa",
        "munge",
        "name",
        "packages",
        "ssh_trust",
        "storage_mounts",
        "users",
    ]
)
"""Boot steps that need a file system, a secret, EC2's tags or packages, which all types share: their failure proves
nothing about the hardware. The step efa has checked the EFA interfaces before lustre_efa configures them."""
_OUT = ("DOWN", "DRAIN", "POWER_DOWN", "POWERING_DOWN", "POWERED_DOWN")
_STEP = re.compile(r"step=(\w+) ")
SCRIPT = "step=scripts/"
"""The user's own scripts: all types run them."""


@dataclass(frozen=True)
class Failure:
    node: str
    instance: str
    type: str
    launched: datetime
    at: datetime
    why: str
    counts: bool = True
    """False once a later instance of the type has passed, for instances from before a pause of the type, and if the
    failure proves nothing about the type."""


@dataclass(frozen=True)
class Pause:
    """A pause stays in the record after its end until an instance passes, because the next pause is twice as long."""

    began: datetime
    until: datetime
    number: int
    """1 for the first, 2 for the one after it."""


@dataclass(frozen=True)
class Record:
    failures: tuple[Failure, ...] = ()
    paused: Mapping[str, Pause] = field(default_factory=dict)
    """Instance type -> its latest pause."""


class Watch:
    """Keeps the record up to date: reconcile calls `look` in each of its rounds."""

    def __init__(self, path: Path = PATH) -> None:
        self._path, self._record = path, read(path)
        self._last: dict[str, ec2.Instance] = {}
        self._up: dict[str, datetime] = {}

    def look(
        self,
        nodes: Sequence[slurm.Node],
        own: Mapping[str, ec2.Instance],
        now: datetime,
        busy: Callable[[], Collection[str]] = slurm.busy,
    ) -> None:
        """own: node -> its instance. An instance that failed may be missing from it by now, so the last known
        one is used. busy: returns the nodes that run a job; it is called only while the record has entries."""
        self._last |= own
        before = self._record
        self._forget(now)
        running = busy() if self._record != Record() else ()
        for node in nodes:
            instance = self._last.get(node.name)
            if instance and (failure := self._count(node, instance, now, running)):
                self._failed(failure, nodes, own)
        if self._record != before:
            _write(self._record, self._path)

    def _forget(self, now: datetime) -> None:
        """Failures of a paused type are kept longer, because the last one explains the pause."""
        paused = {type_ for type_, pause in self._record.paused.items() if now < pause.until}
        kept = (each for each in self._record.failures if now - each.at < KEPT or each.type in paused)
        self._record = replace(self._record, failures=tuple(kept))

    def _count(
        self, node: slurm.Node, instance: ec2.Instance, now: datetime, running: Collection[str]
    ) -> Failure | None:
        """A failure that is not in the record."""
        why = _why(node, instance)
        if not why and _is_in_service(node):
            if node.name in running:
                self._up.setdefault(instance.instance_id, now)
            if now - self._up.get(instance.instance_id, now) >= PASSED:
                self._passed(instance)
            return None
        self._up.pop(instance.instance_id, None)
        if not why or instance.instance_id in {each.instance for each in self._record.failures}:
            return None
        return Failure(node.name, instance.instance_id, instance.instance_type, instance.launch_time, now, why)

    def _failed(self, failure: Failure, nodes: Sequence[slurm.Node], own: Mapping[str, ec2.Instance]) -> None:
        paused = self._record.paused
        last = paused.get(failure.type)
        counts = _is_of_its_type(failure.why) and (last is None or failure.launched > last.began)
        failures = (*self._record.failures, replace(failure, counts=counts))
        row = sorted(each.launched for each in failures if each.type == failure.type and each.counts)
        if counts and _is_bad(failure.type, row, nodes, own):
            failures = _uncounted(failures, failure.type)
            paused = {**paused, failure.type: _next(last, failure.at)}
        self._record = Record(failures, paused)

    def _passed(self, instance: ec2.Instance) -> None:
        """Only an instance that was launched after the last failure proves that the type works again."""
        failures, paused = self._record.failures, self._record.paused
        bad = [each.launched for each in failures if each.type == instance.instance_type and each.counts]
        bad += [pause.began for type_, pause in paused.items() if type_ == instance.instance_type]
        if bad and instance.launch_time > max(bad):
            left = {type_: pause for type_, pause in paused.items() if type_ != instance.instance_type}
            self._record = Record(_uncounted(failures, instance.instance_type), left)


def _next(last: Pause | None, now: datetime) -> Pause:
    if last is None:
        return Pause(now, now + PAUSE, 1)
    return Pause(now, now + min(2 * (last.until - last.began), LONGEST_PAUSE), last.number + 1)


def _why(node: slurm.Node, instance: ec2.Instance) -> str:
    """Empty for a node that has not failed. Slurm keeps a reason when the node gets a new instance, so a reason from
    before the launch does not count. A node that answers has recovered from its boot's error."""
    if node.reason.startswith(CHECKED) and node.reason_time and node.reason_time.astimezone() >= instance.launch_time:
        return "" if node.reason.startswith(PLANNED) else node.reason
    if instance.boot_failure and node.has("DOWN", "POWERING_UP", "POWER_UP", "NOT_RESPONDING"):
        return instance.boot_failure
    return ""


def _is_bad(type_: str, row: Sequence[datetime], nodes: Sequence[slurm.Node], own: Mapping[str, ec2.Instance]) -> bool:
    """Whether too few instances, of those that were launched when the last three that failed were, have not failed.
    Some still boot: one that fails may do so before the others have booted. row: when those that failed were launched,
    in order."""
    if len(row) < IN_A_ROW:
        return False
    since = row[-IN_A_ROW] - TOGETHER
    others = sum(
        found.instance_type == type_ and found.launch_time >= since and not _why(node, found)
        for node in nodes
        if (found := own.get(node.name)) and not node.has(*_OUT)
    )
    return others < OTHERS * sum(launched >= since for launched in row)


def _is_of_its_type(why: str) -> bool:
    step = _STEP.match(why)
    return not why.startswith((STORAGE, PREFLIGHT, SCRIPT)) and not (step and step[1] in SHARED_STEPS)


def _is_in_service(node: slurm.Node) -> bool:
    return not node.has("NOT_RESPONDING", "POWERING_UP", "POWER_UP", *_OUT)


def _uncounted(failures: Sequence[Failure], type_: str) -> tuple[Failure, ...]:
    return tuple(replace(each, counts=False) if each.type == type_ else each for each in failures)


def pauses(now: datetime, path: Path = PATH) -> dict[str, str]:
    """Instance type -> a sentence: until when its launches pause, and why."""
    record = read(path)
    return {type_: _sentence(record, type_, pause) for type_, pause in record.paused.items() if now < pause.until}


def _sentence(record: Record, type_: str, pause: Pause) -> str:
    last = [each.why for each in record.failures if each.type == type_ and _is_of_its_type(each.why)][-1:]
    because = f", the last one with: {last[0]}" if last else ""
    failed = f"{IN_A_ROW * pause.number} of its instances failed in a row"
    return f"launches of {type_} pause until {pause.until:%H:%M:%S} UTC, because {failed}{because}"


def read(path: Path = PATH) -> Record:
    """Empty if the file does not exist or cannot be read. Without the count, three more launches may fail."""
    if not path.exists():
        return Record()
    try:
        data = json.loads(path.read_text())
        failures = tuple(Failure(**dict(_times(each))) for each in data["failures"])
        return Record(failures, {type_: Pause(**dict(_times(pause))) for type_, pause in data["paused"].items()})
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        log.warning("%s cannot be read and is ignored: %s", path, error)
        return Record()


def _times(values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        yield name, datetime.fromisoformat(value) if name in ("launched", "at", "began", "until") else value


def _write(record: Record, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    files.put(path, json.dumps(asdict(record), default=datetime.isoformat))


def utc() -> datetime:
    return datetime.now(timezone.utc)
