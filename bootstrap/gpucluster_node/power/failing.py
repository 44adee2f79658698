"""Instances that failed their checks or their boot. After three in a row of one type its launches pause for a while,
and for twice as long each time, until an instance of the type has passed.

reconcile keeps the count in a file. ResumePrograms read from it which types pause, `gpucluster why` which nodes failed.
A cluster is in one zone, so a type here is a type in that zone.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from gpucluster_node import ec2, slurm

log = logging.getLogger("failing")
PATH = Path("/run/gpucluster/failures.json")
IN_A_ROW = 3
PAUSE = timedelta(minutes=10)
"""The first one: EC2 may have other hardware by then."""
LONGEST_PAUSE = timedelta(hours=4)
PASSED = timedelta(seconds=90)
"""An instance that is in service for so long, since a job runs on it, has passed that job's checks: they take up to
60 s, and Slurm begins them when the nodes of the job have booted and it is not CONFIGURING any more."""
KEPT = timedelta(hours=1)
CHECKED = "health: "
"""How the reason of a node begins that failed a check."""
NOT_ITS_TYPE = (f"{CHECKED}EC2 plans", f"{CHECKED}storage: ")
"""Of a node that EC2 will stop or reboot, or that lacks a mount: that says nothing about its hardware."""


@dataclass(frozen=True)
class Failure:
    node: str
    instance: str
    type: str
    launched: datetime
    at: datetime
    why: str
    counts: bool = True
    """False once a later instance of the type has passed, or for instances from before a pause of the type."""


@dataclass(frozen=True)
class Pause:
    """Kept after its end until an instance has passed, because the next one is longer."""

    began: datetime
    until: datetime
    number: int
    """1 for the first, 2 for the one after it."""


@dataclass(frozen=True)
class Record:
    failures: tuple[Failure, ...] = ()
    paused: Mapping[str, Pause] = field(default_factory=dict)
    """By type."""


class Watch:
    """Looks at all nodes again and again."""

    def __init__(self, path: Path = PATH) -> None:
        self._path, self._record = path, read(path)
        self._last: dict[str, ec2.Instance] = {}
        self._up: dict[str, datetime] = {}

    def look(
        self,
        nodes: Sequence[slurm.Node],
        newest: Mapping[str, ec2.Instance],
        now: datetime,
        busy: Callable[[], Collection[str]] = slurm.busy,
    ) -> None:
        """newest: node -> its instance. The instance of a failed node may be gone before anybody looks. busy: returns
        the nodes with a job that runs; it is called only while an instance that passes would change something."""
        self._last |= newest
        before = self._record
        self._forget(now)
        running = busy() if self._record != Record() else ()
        for node in nodes:
            if instance := self._last.get(node.name):
                self._about(node, instance, now, running)
        if self._record != before:
            _write(self._record, self._path)

    def _forget(self, now: datetime) -> None:
        """The last failure of a type says why it pauses."""
        paused = {type_ for type_, pause in self._record.paused.items() if now < pause.until}
        kept = (each for each in self._record.failures if now - each.at < KEPT or each.type in paused)
        self._record = replace(self._record, failures=tuple(kept))

    def _about(self, node: slurm.Node, instance: ec2.Instance, now: datetime, running: Collection[str]) -> None:
        why = _why(node, instance)
        if not why and _is_in_service(node):
            if node.name in running:
                self._up.setdefault(instance.instance_id, now)
            if now - self._up.get(instance.instance_id, now) >= PASSED:
                self._passed(instance)
            return
        self._up.pop(instance.instance_id, None)
        if why and instance.instance_id not in {each.instance for each in self._record.failures}:
            type_, launched = instance.instance_type, instance.launch_time
            self._failed(Failure(node.name, instance.instance_id, type_, launched, now, why))

    def _failed(self, failure: Failure) -> None:
        paused = self._record.paused
        last = paused.get(failure.type)
        counts = last is None or failure.launched > last.began
        failures = (*self._record.failures, replace(failure, counts=counts))
        if len([each for each in failures if each.type == failure.type and each.counts]) >= IN_A_ROW:
            failures = _uncounted(failures, failure.type)
            paused = {**paused, failure.type: _next(last, failure.at)}
        self._record = Record(failures, paused)

    def _passed(self, instance: ec2.Instance) -> None:
        """An instance that was launched before the last one that failed says nothing about the next."""
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
    """Empty for a node that has not failed. Slurm keeps a reason after the node has another instance. One that answers
    has recovered from its boot's error."""
    if node.reason.startswith(CHECKED) and node.reason_time and node.reason_time.astimezone() >= instance.launch_time:
        return "" if node.reason.startswith(NOT_ITS_TYPE) else node.reason
    if instance.boot_failure and node.has("DOWN", "POWERING_UP", "POWER_UP", "NOT_RESPONDING"):
        return instance.boot_failure
    return ""


def _is_in_service(node: slurm.Node) -> bool:
    out = ("DOWN", "DRAIN", "NOT_RESPONDING", "POWERING_UP", "POWER_UP", "POWER_DOWN", "POWERING_DOWN", "POWERED_DOWN")
    return not node.has(*out)


def _uncounted(failures: Sequence[Failure], type_: str) -> tuple[Failure, ...]:
    return tuple(replace(each, counts=False) if each.type == type_ else each for each in failures)


def pauses(now: datetime, path: Path = PATH) -> dict[str, str]:
    """Type -> until when its launches pause, and why."""
    record = read(path)
    return {type_: _words(record, type_, pause) for type_, pause in record.paused.items() if now < pause.until}


def _words(record: Record, type_: str, pause: Pause) -> str:
    last = [each.why for each in record.failures if each.type == type_][-1:]
    because = f", the last one with: {last[0]}" if last else ""
    failed = f"{IN_A_ROW * pause.number} of its instances failed in a row"
    return f"launches of {type_} pause until {pause.until:%H:%M:%S} UTC, because {failed}{because}"


def read(path: Path = PATH) -> Record:
    """Nothing if there is no file yet, or one that cannot be read: that costs three launches at most."""
    if not path.exists():
        return Record()
    try:
        data = json.loads(path.read_text())
        failures = tuple(Failure(**dict(_times(each))) for each in data["failures"])
        return Record(failures, {type_: Pause(**dict(_times(pause))) for type_, pause in data["paused"].items()})
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        log.warning("%s is not readable, and is not used: %s", path, error)
        return Record()


def _times(values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        yield name, datetime.fromisoformat(value) if name in ("launched", "at", "began", "until") else value


def _write(record: Record, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_text(json.dumps(asdict(record), default=datetime.isoformat))
    new.replace(path)


def utc() -> datetime:
    return datetime.now(timezone.utc)
