"""Applies the pace: around each call, at launches, and to the values in answers.

Off until `begin`. From then on a call takes as long as on AWS, may be throttled, and shows its effects late.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from moto.ec2.models import ec2_backends
from werkzeug import Response

from localcloud.clients import ACCOUNT_ID
from localcloud.pace import figures
from localcloud.pace.buckets import Buckets, Demand
from localcloud.pace.clock import Clock
from localcloud.pace.figures import Figures, Seconds
from localcloud.pace.memory import Key, Memory
from localcloud.pace.states import States
from localcloud.protocol import answers
from localcloud.protocol.calls import Call

T = TypeVar("T")
_POLICY_CHANGES = ("PutRolePolicy", "AttachRolePolicy", "DeleteRolePolicy", "DetachRolePolicy", "CreateRole")
_PROFILE_CHANGES = ("CreateInstanceProfile", "AddRoleToInstanceProfile")
_LAUNCHES = ("ec2:RunInstances", "ec2:CreateFleet")


@dataclass
class _Running:
    """The pace in force."""

    table: str
    figures: Figures
    clock: Clock
    buckets: Buckets
    memory: Memory
    states: States
    random: random.Random
    busy: set[str] = field(default_factory=set)  # hosted zones that are being changed
    throttled: int = 0
    local: threading.local = field(default_factory=threading.local)

    def draw(self, seconds: Seconds) -> float:
        return self.random.uniform(*seconds)


class Pace:
    def __init__(self, policies_of: Callable[[str], Any] = lambda role_name: None) -> None:
        """policies_of: returns the current policies of a role."""
        self._policies_of = policies_of
        self._running: _Running | None = None
        self._lock = threading.Lock()

    def begin(self, table: str, clock: Clock | None = None, seed: int = 0, without_lags: Collection[str] = ()) -> None:
        """without_lags: lags of the table that do not apply."""
        if table not in figures.TABLES:
            raise ValueError(f"unknown pace {table!r}; allowed: {', '.join(figures.TABLES)}")
        found = figures.load(table).without_lags(without_lags)
        clock, chance = clock or Clock(), random.Random(seed)
        states = States(clock, found, lambda seconds: chance.uniform(*seconds))
        self._running = _Running(table, found, clock, Buckets(clock), Memory(clock), states, chance)

    def end(self) -> None:
        self._running = None

    def described(self) -> dict[str, Any]:
        running = self._running
        if running is None:
            return {"pace": "off"}
        return {"pace": running.table, "scale": running.clock.scale, "throttled": running.throttled}

    # --- around a call ---

    def answer(self, call: Call, make: Callable[[], Response]) -> Response:
        """The answer of `make()`, or a refusal, after the time that the call takes."""
        running = self._running
        if running is None or not call.action:
            return make()
        name = f"{call.service}:{call.action}"
        if not running.buckets.take(_demands(running.figures, call, name)):
            running.throttled += 1
            return answers.throttled(call)
        with _alone(running, call, self._lock) as alone:
            if not alone:
                return answers.error(call, "PriorRequestNotComplete", _STILL_BUSY, status=400)
            return self._paced(running, call, name, make)

    def _paced(self, running: _Running, call: Call, name: str, make: Callable[[], Response]) -> Response:
        latency = running.figures.latency_of(name)
        whole = running.draw(latency.seconds)
        refused = running.draw(latency.refused_seconds) if latency.refused_seconds else whole
        running.clock.sleep(refused)
        if unknown := self._unknown(running, call):
            return answers.error(
                call, "InvalidInstanceID.NotFound", f"The instance ID '{unknown}' does not exist", status=400
            )
        changed = self._changed(running, call)
        running.local.launched = [] if name in _LAUNCHES else None
        response = make()
        if response.status_code < 400:
            for key, value, seconds in changed:
                running.memory.keep(key, value, seconds)
            running.clock.sleep(max(whole - refused, 0))
        for instance_id in running.local.launched or ():
            self._hide(running, instance_id)
        running.local.launched = None
        return response

    def _unknown(self, running: _Running, call: Call) -> str:
        """The first instance in the call that EC2 does not know yet."""
        named = (v for v in call.form.values() if v.startswith("i-")) if call.service == "ec2" else ()
        return next((each for each in named if running.memory.seen(("instance", each), True) is False), "")

    def _changed(self, running: _Running, call: Call) -> list[tuple[Key, Any, float]]:
        """The current value of what the call changes, and for how long it is still shown."""

        def lag(what: str) -> float:
            return running.draw(running.figures.lag_of(what))

        if call.service == "ec2" and call.action in ("CreateTags", "DeleteTags"):
            tags = ec2_backends[ACCOUNT_ID][call.region].tags
            ids = [value for key, value in call.form.items() if key.startswith("ResourceId.")]
            seconds = {"tags": lag("tags"), "tags-in-policies": lag("tags-in-policies")}
            return [((kind, each), dict(tags.get(each, {})), s) for each in ids for kind, s in seconds.items()]
        if call.service == "iam" and call.action in _POLICY_CHANGES:
            role_name = call.form.get("RoleName", "")
            return [(("policies", role_name), self._policies_of(role_name), lag("role-policies"))]
        if call.service == "iam" and call.action in _PROFILE_CHANGES:
            return [(("profile", call.form.get("InstanceProfileName", "")), False, lag("instance-profile"))]
        return []

    # --- at launches ---

    def starting(self, instance_id: str, instance_type: str) -> None:
        """An instance is launched, or a stopped one started."""
        running = self._running
        if running is None:
            return
        running.states.starting(instance_id, instance_type)
        launched = getattr(running.local, "launched", None)
        if launched is not None:
            launched.append(instance_id)
            self._hide(running, instance_id, 3600.0)  # until the launch is answered

    def _hide(self, running: _Running, instance_id: str, longer_s: float = 0.0) -> None:
        shown = running.draw(running.figures.lag_of("instance")) + longer_s
        judged = running.draw(running.figures.lag_of("tags-in-policies")) + longer_s
        running.memory.replace(("instance", instance_id), False, shown)
        running.memory.replace(("tags-in-policies", instance_id), {}, judged)

    # --- where something is shown ---

    def state(self, instance_id: str, instance_type: str, state: str | None) -> str | None:
        return self._running.states.shown(instance_id, instance_type, state) if self._running else state

    def knows(self, instance_id: str) -> bool:
        """Whether Describe calls show the instance."""
        return self._seen("instance", instance_id, True)

    def tags(self, resource_id: str, now: dict[str, str]) -> dict[str, str]:
        return self._seen("tags", resource_id, now)

    def tags_in_policies(self, resource_id: str, now: dict[str, str]) -> dict[str, str]:
        return self._seen("tags-in-policies", resource_id, now)

    def policies(self, role_name: str, now: T) -> T:
        return self._seen("policies", role_name, now)

    def knows_profile(self, name: str) -> bool:
        return self._seen("profile", name, True)

    def _seen(self, kind: str, whose: str, now: T) -> T:
        return self._running.memory.seen((kind, whose), now) if self._running else now


_STILL_BUSY = "The request was rejected because Route 53 was still processing a prior request."


@contextmanager
def _alone(running: _Running, call: Call, lock: threading.Lock) -> Iterator[bool]:
    """Route 53 executes one call at a time for a hosted zone."""
    if (call.service, call.action) != ("route53", "ChangeResourceRecordSets"):
        yield True
        return
    with lock:
        alone = call.path not in running.busy
        running.busy.add(call.path)
    try:
        yield alone
    finally:
        if alone:
            running.busy.discard(call.path)


def _demands(found: Figures, call: Call, name: str) -> list[Demand]:
    demands: list[Demand] = []
    for bucket in found.buckets_of(name, unfiltered=_is_unfiltered(call)):
        key = (bucket.call if bucket.shared else name, bucket.counts, str(bucket.unfiltered), call.region)
        demands.append((key, bucket, _instances(call) if bucket.counts == "instances" else 1))
    return demands


def _is_unfiltered(call: Call) -> bool:
    return not any(key.startswith("Filter.") or key == "MaxResults" or "Id." in key for key in call.form)


def _instances(call: Call) -> int:
    if call.action == "RunInstances":
        wanted = call.form.get("MaxCount", "1")
        return int(wanted) if wanted.isdecimal() else 1
    return sum(key.startswith("InstanceId.") for key in call.form)
