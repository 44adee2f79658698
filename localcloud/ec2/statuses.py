"""The filters of DescribeInstanceStatus, most of which moto ignores. Every instance that runs here is healthy."""

from __future__ import annotations

from typing import Any

from moto.ec2.models.instances import Instance

_HEALTHY = "ok"


def matches(instance: Instance, filters: dict[str, Any]) -> bool:
    seen = _values(instance)
    return all(
        seen.get(name) in values for name, values in filters.items() if name in seen or name.startswith("event.")
    )


def _values(instance: Instance) -> dict[str, str]:
    running = instance.state == "running"
    status = _HEALTHY if running else "not-applicable"
    return {
        "availability-zone": str(instance.placement.zone),
        "instance-state-code": str(instance.state_code),
        "instance-state-name": str(instance.state),
        "instance-status.status": status,
        "system-status.status": status,
        "attached-ebs-status.status": status,
        "instance-status.reachability": "passed" if running else "",
        "system-status.reachability": "passed" if running else "",
    }
