"""The hardware of running instances, less what faults have taken."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from localcloud.ec2 import catalogue, lifecycle
from localcloud.faults import Fault
from localcloud.runtime import Runtime


def refit(runtime: Runtime, changed: Iterable[Fault]) -> None:
    """Shows the guests of these faults the hardware that they have now."""
    for instance_id in {rule.instance_id for rule in changed if rule.kind in ("lost-gpu", "lost-efa")}:
        with runtime.locks.whole:
            instance = lifecycle.find(instance_id)
        if instance is None:
            continue
        whole = catalogue.hardware(instance.instance_type)
        gpus = max(0, whole.gpus - runtime.faults.lost(instance_id, "lost-gpu"))
        efa = max(0, whole.efa_interfaces - runtime.faults.lost(instance_id, "lost-efa"))
        runtime.hypervisor.refit(instance_id, dataclasses.replace(whole, gpus=gpus, efa_interfaces=efa))


def require_running(runtime: Runtime, instance_id: str) -> None:
    """Raises ValueError."""
    if runtime.hypervisor.state(instance_id) is None:
        raise ValueError(f"no instance {instance_id} runs in this cloud")
