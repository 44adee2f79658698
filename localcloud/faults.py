"""Failures on demand: rules that `localcloud fault add` adds.

capacity      launches of a type (in a zone) fail with InsufficientInstanceCapacity
throttle      calls of an action fail with RequestLimitExceeded
slow-boot     matching instances boot `delay_s` later
failed-boot   matching instances never boot
broken        a command of matching instances prints a line and exits with code 1
interruption  a spot instance's metadata announces its termination, which follows `delay_s` (120 s) later
event         an instance gets a scheduled event `code`, for `delay_s` later, which then does not happen
impaired      an instance's status check fails
not-offered   a zone lacks an instance type: its offerings do not list the type, launches fail with Unsupported
quota         sets a quota on vCPUs of EC2 to `value`: Service Quotas shows it, launches beyond it fail

A rule with `count` is removed after that many uses. Instance death is not a rule: it happens at once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from localcloud.machines.spec import BootFault

KINDS = (
    "capacity",
    "throttle",
    "slow-boot",
    "failed-boot",
    "broken",
    "interruption",
    "event",
    "impaired",
    "not-offered",
    "quota",
)
EVENT_CODES = ("instance-reboot", "system-reboot", "system-maintenance", "instance-retirement", "instance-stop")
SPOT_WARNING_S = 120.0  # AWS gives two minutes
_NEEDS = {
    "throttle": ("action",),
    "slow-boot": ("delay_s",),
    "broken": ("command",),
    "interruption": ("instance_id",),
    "event": ("instance_id", "code", "delay_s"),
    "impaired": ("instance_id",),
    "not-offered": ("instance_type", "availability_zone"),
    "quota": ("quota_code", "value"),
}
_NOTICES = {"interruption": SPOT_WARNING_S, "event": 0.0, "impaired": 0.0}
"""Kind -> seconds from its addition to its moment, where `delay_s` is not given."""
_BOOT_KINDS = ("slow-boot", "failed-boot", "broken")


class FaultError(ValueError):
    """An invalid rule; the message says why."""


@dataclass
class Fault:
    """One rule; empty fields match everything."""

    kind: str
    id: str = ""
    instance_type: str = ""
    availability_zone: str = ""
    action: str = ""  # throttle: "RunInstances" or "ec2:RunInstances"
    tag: str = ""  # "key=value", or "key"
    instance_id: str = ""
    command: str = ""
    message: str = ""
    delay_s: float = 0.0
    due_epoch_s: float = 0.0  # interruption, event: when it happens; impaired: since when. Set when the rule is added
    count: int | None = None  # uses left; None: unlimited
    code: str = ""  # event: instance-stop, …
    quota_code: str = ""  # quota: L-417A185B
    value: float | None = None  # quota: vCPUs

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise FaultError(f"unknown fault {self.kind!r}; allowed: {', '.join(KINDS)}")
        for needed in _NEEDS.get(self.kind, ()):
            if getattr(self, needed) in ("", 0.0, None) and (needed, self.value) != ("value", 0.0):
                raise FaultError(f"a {self.kind} fault needs {needed}")
        if self.code and self.code not in EVENT_CODES:
            raise FaultError(f"unknown event {self.code!r}; allowed: {', '.join(EVENT_CODES)}")
        if self.count is not None and self.count < 1:
            raise FaultError(f"count must be at least 1, got {self.count}")


def parse(values: Mapping[str, Any]) -> Fault:
    known = {f.name for f in fields(Fault)}
    if unknown := set(values) - known:
        raise FaultError(f"unknown field {sorted(unknown)[0]!r} of a fault; allowed: {', '.join(sorted(known))}")
    if "kind" not in values:
        raise FaultError(f"a fault needs a kind: {', '.join(KINDS)}")
    return Fault(**values)


class Faults:
    """The rules in force; every method may be called from any thread."""

    def __init__(self) -> None:
        self._rules: list[Fault] = []
        self._lock = threading.Lock()
        self._added = 0

    def add(self, fault: Fault) -> Fault:
        with self._lock:
            self._added += 1
            fault.id = f"fault-{self._added}"
            if fault.kind in _NOTICES:
                fault.due_epoch_s = time.time() + (fault.delay_s or _NOTICES[fault.kind])
            self._rules.append(fault)
        return fault

    def clear(self, fault_id: str | None = None) -> int:
        """Returns how many rules were removed."""
        with self._lock:
            kept = [rule for rule in self._rules if fault_id and rule.id != fault_id]
            gone, self._rules = len(self._rules) - len(kept), kept
        return gone

    def list(self) -> list[dict[str, Any]]:
        with self._lock:
            return [_set(rule) for rule in self._rules]

    def no_capacity(self, instance_type: str, availability_zone: str) -> bool:
        with self._lock:
            for rule in self._rules:
                if (
                    rule.kind == "capacity"
                    and rule.instance_type in ("", instance_type)
                    and rule.availability_zone in ("", availability_zone)
                ):
                    self._use(rule)
                    return True
        return False

    def not_offered(self, instance_type: str, availability_zone: str) -> bool:
        """This query does not count as a use."""
        with self._lock:
            return any(
                rule.kind == "not-offered"
                and (rule.instance_type, rule.availability_zone) == (instance_type, availability_zone)
                for rule in self._rules
            )

    def quota(self, code: str) -> float | None:
        """The value of the latest rule for a quota."""
        with self._lock:
            found = [rule.value for rule in self._rules if rule.kind == "quota" and rule.quota_code == code]
        return found[-1] if found else None

    def throttled(self, service: str, action: str) -> bool:
        with self._lock:
            for rule in self._rules:
                if rule.kind == "throttle" and rule.action in (action, f"{service}:{action}"):
                    self._use(rule)
                    return True
        return False

    def boot_fault(self, instance_id: str, instance_type: str, tags: Mapping[str, str]) -> BootFault:
        """The combined effect of all matching rules on the boot of a new instance."""
        delay_s, never, broken = 0.0, False, {}
        with self._lock:
            for rule in [r for r in self._rules if r.kind in _BOOT_KINDS]:
                if not _matches(rule, instance_id, instance_type, tags):
                    continue
                self._use(rule)
                delay_s += rule.delay_s if rule.kind == "slow-boot" else 0
                never = never or rule.kind == "failed-boot"
                if rule.kind == "broken":
                    broken[rule.command] = rule.message or f"{rule.command}: broken by a localcloud fault"
        return BootFault(delay_s, never, broken)

    def interruption_epoch_s(self, instance_id: str) -> float | None:
        """When the instance will be terminated by an interruption that is still in force."""
        found = self._of(instance_id, "interruption")
        return found[0].due_epoch_s if found else None

    def events(self, instance_id: str) -> Sequence[Fault]:
        """The scheduled events of an instance."""
        return self._of(instance_id, "event")

    def impaired_since_epoch_s(self, instance_id: str) -> float | None:
        found = self._of(instance_id, "impaired")
        return found[0].due_epoch_s if found else None

    def _of(self, instance_id: str, kind: str) -> Sequence[Fault]:
        with self._lock:
            return [rule for rule in self._rules if rule.kind == kind and rule.instance_id == instance_id]

    def _use(self, rule: Fault) -> None:
        if rule.count is not None:
            rule.count -= 1
            if rule.count == 0:
                self._rules.remove(rule)


def _set(rule: Fault) -> dict[str, Any]:
    """The fields that are set; a quota may be 0."""
    return {k: v for k, v in asdict(rule).items() if v not in ("", 0.0, None) or (k == "value" and v is not None)}


def _matches(rule: Fault, instance_id: str, instance_type: str, tags: Mapping[str, str]) -> bool:
    key, equals, value = rule.tag.partition("=")
    return (
        rule.instance_id in ("", instance_id)
        and rule.instance_type in ("", instance_type)
        and (not key or (key in tags and (not equals or tags[key] == value)))
    )
