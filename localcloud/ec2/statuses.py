"""DescribeInstanceStatus: status checks, scheduled events, and its filters, most of which moto ignores.

Every instance that runs here is healthy and has no event, unless a fault says otherwise.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

from moto.ec2.models.instances import Instance

from localcloud.faults import Fault, Faults

_CHECKS = {
    "InstanceStatus": "instance-status",
    "SystemStatus": "system-status",
    "AttachedEbsStatus": "attached-ebs-status",
}
"""Member of the answer -> first part of its filters' names."""


def of(instance: Instance, faults: Faults) -> dict[str, Any]:
    """The answer's entry for an instance."""
    running = instance.state == "running"
    status, since = faults.status(instance.id) if running else ("not-applicable", None)
    own = "ok" if running else status
    return {
        "AvailabilityZone": str(instance.placement.zone),
        "InstanceId": instance.id,
        "InstanceState": {"Code": instance.state_code, "Name": str(instance.state)},
        "InstanceStatus": _check(status, since),
        "SystemStatus": _check(own),
        "AttachedEbsStatus": _check(own),
        "Events": [_event(rule) for rule in faults.events(instance.id)],
    }


_DETAIL = {"ok": "passed", "impaired": "failed", "initializing": "initializing"}


def _check(status: str, impaired_since_epoch_s: float | None = None) -> dict[str, Any]:
    if status not in _DETAIL:
        return {"Status": status}
    since = {"ImpairedSince": _utc(impaired_since_epoch_s)} if impaired_since_epoch_s else {}
    return {"Status": status, "Details": [{"Name": "reachability", "Status": _DETAIL[status], **since}]}


def _event(rule: Fault) -> dict[str, Any]:
    return {
        "InstanceEventId": event_id(rule),
        "Code": rule.code,
        "Description": description(rule),
        "NotBefore": _utc(rule.due_epoch_s),
    }


def event_id(rule: Fault) -> str:
    return f"instance-event-{int(rule.id.rpartition('-')[2]):017x}"


def description(rule: Fault) -> str:
    return f"The instance is scheduled for {rule.code}"


def _utc(epoch_s: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(epoch_s, datetime.UTC)


def matches(status: dict[str, Any], filters: Mapping[str, Any]) -> bool:
    seen = _values(status)
    return all(
        seen[name] & set(values) if name in seen else status["Events"] or not name.startswith("event.")
        for name, values in filters.items()
    )


def _values(status: dict[str, Any]) -> dict[str, set[str]]:
    """Filter -> the instance's values. Filters by an event's times are missing: they match every event."""
    events, state = status["Events"], status["InstanceState"]
    checks = {
        f"{prefix}.{name}": set(values)
        for member, prefix in _CHECKS.items()
        for name, values in (
            ("status", [status[member]["Status"]]),
            ("reachability", [each["Status"] for each in status[member].get("Details", ())]),
        )
    }
    return {
        **checks,
        "availability-zone": {status["AvailabilityZone"]},
        "instance-state-code": {str(state["Code"])},
        "instance-state-name": {state["Name"]},
        "event.code": {each["Code"] for each in events},
        "event.description": {each["Description"] for each in events},
        "event.instance-event-id": {each["InstanceEventId"] for each in events},
    }
