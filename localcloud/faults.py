"""Failures on demand: rules that `localcloud fault add` adds.

capacity      launches of a type (in a zone) fail with InsufficientInstanceCapacity, after `value` (0) more instances
throttle      calls of an action fail with RequestLimitExceeded, beyond `value` (0) calls a second of each action
unavailable   calls of an action fail with HTTP status 503, as if the service was down
slow-boot     matching instances boot `delay_s` later
failed-boot   matching instances never boot
broken        a command of matching instances prints a line and exits with code 1
interruption  a spot instance's metadata announces its termination, which follows `delay_s` (120 s) later
event         an instance gets a scheduled event `code`, for `delay_s` later, which then does not happen
impaired      an instance's status check fails
block-end     a Capacity Block ends early: EC2 terminates its instances `delay_s` from now; no rule is kept
expired       calls of an instance are refused: the credentials of its role have expired
lost-gpu      an instance lacks `value` (1) of its GPUs
lost-efa      an instance lacks `value` (1) of its EFA interfaces
kernel-log    an instance's kernel log gets `message`; this happens at once, and no rule is kept
clock-skew    an instance's clock seems to be `value` seconds ahead of the time server
network-cut   no packet passes between an instance and its VPC, until the rule is removed; its status check fails
no-metadata   the metadata service does not answer an instance, until the rule is removed
slow-dns      the VPCs' resolvers answer `delay_s` later
not-offered   a zone lacks an instance type: its offerings do not list the type, launches fail with Unsupported
quota         sets a quota on vCPUs of EC2 to `value`: Service Quotas shows it, launches beyond it fail

`action` may be a pattern: `ec2:*` matches all actions of EC2. A rule with `count` is removed after that many uses.
Instance death is not a rule: it happens at once.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from fnmatch import fnmatchcase
from typing import Any

from localcloud.machines.spec import BootFault

KINDS = (
    "capacity",
    "throttle",
    "unavailable",
    "slow-boot",
    "failed-boot",
    "broken",
    "interruption",
    "event",
    "impaired",
    "block-end",
    "expired",
    "lost-gpu",
    "lost-efa",
    "kernel-log",
    "clock-skew",
    "network-cut",
    "no-metadata",
    "slow-dns",
    "not-offered",
    "quota",
)
EVENT_CODES = ("instance-reboot", "system-reboot", "system-maintenance", "instance-retirement", "instance-stop")
SPOT_WARNING_S = 120.0  # AWS gives two minutes
STATUS_CHECKED_EVERY_S = 60.0  # EC2's guide, monitoring-system-instance-status-check
INITIALIZING_S = 120.0
"""How long a status check waits for an instance that boots. Assumed: AWS documents no time."""
_NEEDS = {
    "throttle": ("action",),
    "unavailable": ("action",),
    "slow-boot": ("delay_s",),
    "broken": ("command",),
    "interruption": ("instance_id",),
    "event": ("instance_id", "code", "delay_s"),
    "impaired": ("instance_id",),
    "block-end": ("reservation_id", "delay_s"),
    "expired": ("instance_id",),
    "lost-gpu": ("instance_id",),
    "lost-efa": ("instance_id",),
    "kernel-log": ("instance_id", "message"),
    "clock-skew": ("instance_id", "value"),
    "network-cut": ("instance_id",),
    "no-metadata": ("instance_id",),
    "slow-dns": ("delay_s",),
    "not-offered": ("instance_type", "availability_zone"),
    "quota": ("quota_code", "value"),
}
_NOTICES = {"interruption": SPOT_WARNING_S, "event": 0.0, "impaired": 0.0, "network-cut": STATUS_CHECKED_EVERY_S}
"""Kind -> seconds from its addition to its moment, where `delay_s` is not given."""
INSIDE = ("lost-gpu", "lost-efa", "kernel-log", "clock-skew")
"""What only the guest of a running instance sees."""
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
    action: str = ""  # throttle, unavailable: "RunInstances", "ec2:RunInstances" or "ec2:*"
    tag: str = ""  # "key=value", or "key"
    instance_id: str = ""
    command: str = ""
    message: str = ""
    delay_s: float = 0.0
    due_epoch_s: float = 0.0  # when it happens; impaired, network-cut: since when the check fails. Set by `Faults.add`
    count: int | None = None  # uses left; None: unlimited
    code: str = ""  # event: instance-stop, …
    quota_code: str = ""  # quota: L-417A185B
    reservation_id: str = ""  # block-end: cr-0123456789abcdef0
    value: float | None = None
    """quota: vCPUs; capacity: instances left; throttle: calls a second of each action; lost-gpu, lost-efa: how many;
    clock-skew: seconds."""

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
        self._next_call_s: dict[tuple[str, str], float] = {}
        """Rule and action -> when the next call is not throttled."""
        self._silent: dict[str, tuple[float, float]] = {}  # instance -> its launch, and when it answers

    def add(self, fault: Fault) -> Fault:
        with self._lock:
            self._added += 1
            fault.id = f"fault-{self._added}"
            if fault.kind in _NOTICES:
                fault.due_epoch_s = time.time() + (fault.delay_s or _NOTICES[fault.kind])
            self._rules.append(fault)
        return fault

    def clear(self, fault_id: str | None = None) -> Sequence[Fault]:
        """Returns the rules that were removed."""
        with self._lock:
            gone = [rule for rule in self._rules if not fault_id or rule.id == fault_id]
            self._rules = [rule for rule in self._rules if rule not in gone]
        return gone

    def list(self) -> list[dict[str, Any]]:
        with self._lock:
            return [_set(rule) for rule in self._rules]

    def no_capacity(self, instance_type: str, availability_zone: str, least: int = 1) -> bool:
        """Whether EC2 refuses a launch of at least so many instances."""
        with self._lock:
            for rule in self._capacity(instance_type, availability_zone):
                if (rule.value or 0) < least:
                    self._use(rule)
                    return True
        return False

    def room(self, instance_type: str, availability_zone: str) -> float:
        """How many instances EC2 has capacity for."""
        with self._lock:
            return min((rule.value or 0 for rule in self._capacity(instance_type, availability_zone)), default=math.inf)

    def launched(self, instance_type: str, availability_zone: str, count: int) -> None:
        """The capacity of these instances is used up. It does not come back when they end."""
        with self._lock:
            for rule in self._capacity(instance_type, availability_zone):
                rule.value = (rule.value or 0) - count

    def _capacity(self, instance_type: str, availability_zone: str) -> Sequence[Fault]:
        return [
            rule
            for rule in self._rules
            if rule.kind == "capacity"
            and rule.instance_type in ("", instance_type)
            and rule.availability_zone in ("", availability_zone)
        ]

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
            for rule in self._for_call("throttle", service, action):
                if not self._is_in_rate(rule, f"{service}:{action}"):
                    self._use(rule)
                    return True
        return False

    def unavailable(self, service: str, action: str) -> bool:
        with self._lock:
            for rule in self._for_call("unavailable", service, action):
                self._use(rule)
                return True
        return False

    def _for_call(self, kind: str, service: str, action: str) -> Sequence[Fault]:
        return [
            rule
            for rule in self._rules
            if rule.kind == kind and any(fnmatchcase(name, rule.action) for name in (action, f"{service}:{action}"))
        ]

    def _is_in_rate(self, rule: Fault, action: str) -> bool:
        """Whether the rule lets this call pass; the next one has to wait."""
        now = time.monotonic()
        if not rule.value or now < self._next_call_s.get((rule.id, action), 0.0):
            return False
        self._next_call_s[rule.id, action] = now + 1 / rule.value
        return True

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
            now = time.time()
            self._silent[instance_id] = now, math.inf if never else now + delay_s
        return BootFault(delay_s, never, broken)

    def interruption_epoch_s(self, instance_id: str) -> float | None:
        """When the instance will be terminated by an interruption that is still in force."""
        found = self._of(instance_id, "interruption")
        return found[0].due_epoch_s if found else None

    def events(self, instance_id: str) -> Sequence[Fault]:
        """The scheduled events of an instance."""
        return self._of(instance_id, "event")

    def expired(self, instance_id: str) -> bool:
        return bool(self._of(instance_id, "expired"))

    def status(self, instance_id: str) -> tuple[str, float | None]:
        """For a running instance: what its status check says, and since when it is impaired. For an instance that never
        answered, this is the time of its launch (EC2's API, InstanceStatusDetails)."""
        now = time.time()
        launched, answers = self._silent.get(instance_id, (now, now))
        if now < answers:
            return ("initializing", None) if now < launched + INITIALIZING_S else ("impaired", launched)
        found = [*self._of(instance_id, "impaired"), *self._of(instance_id, "network-cut")]
        since = [rule.due_epoch_s for rule in found if rule.due_epoch_s <= now]
        return ("impaired", min(since)) if since else ("ok", None)

    def has_no_metadata(self, instance_id: str) -> bool:
        return bool(self._of(instance_id, "no-metadata"))

    def dns_delay_s(self) -> float:
        with self._lock:
            return sum(rule.delay_s for rule in self._rules if rule.kind == "slow-dns")

    def lost(self, instance_id: str, kind: str) -> int:
        """How many GPUs (lost-gpu) or EFA interfaces (lost-efa) the instance lacks."""
        return sum(1 if rule.value is None else int(rule.value) for rule in self._of(instance_id, kind))

    def clock_ahead_s(self, instance_id: str) -> float:
        return sum(rule.value or 0.0 for rule in self._of(instance_id, "clock-skew"))

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
