"""StartInstances, StopInstances and RebootInstances."""

from __future__ import annotations

from typing import Any

from moto.core.responses import ActionResult, EmptyResult
from moto.ec2.models.instances import Instance
from moto.ec2.responses import EC2Response

from localcloud.ec2 import lifecycle, quotas, reservations, spec
from localcloud.ec2.disks import block_devices
from localcloud.ec2.errors import Ec2Error, insufficient_capacity
from localcloud.identity.authorization import LATE_DENIAL
from localcloud.runtime import Runtime

State = dict[str, Any]


def on(runtime: Runtime, instance: Instance) -> None:
    """Boots a new instance, or a stopped one again, with its attached volumes."""
    tags = {tag["key"]: tag["value"] for tag in instance.get_tags()}
    fault = runtime.faults.boot_fault(instance.id, instance.instance_type, tags)
    runtime.hypervisor.start(spec.of(instance), fault)
    runtime.pace.starting(instance.id, instance.instance_type)
    for device, block in instance.get_block_device_mapping:
        if device != instance.root_device_name:
            block_devices.attach(runtime.hypervisor, instance.id, block.volume_id, int(block.size or 8), device)


class PowerActions(EC2Response):
    runtime: Runtime

    def stop_instances(self) -> ActionResult:
        instances = self._named()
        for instance in instances:
            _check_stoppable(instance)
        self.error_on_dryrun()
        changes = []
        for instance in instances:
            before = _shown(instance)
            if instance.state == "running":
                lifecycle.stop(self.runtime.hypervisor, instance, hard=bool(self._get_param("Force")))
            changes.append(_change(instance, before))
        return ActionResult({"StoppingInstances": changes})

    def start_instances(self) -> ActionResult:
        instances = self._named()
        for instance in instances:
            _check_startable(self.runtime, instance)
        self.error_on_dryrun()
        changes = []
        for instance in instances:
            before = _shown(instance)
            if instance.state == "stopped":
                instance.start()
                lifecycle.show(instance, "pending")
                if LATE_DENIAL.get():
                    lifecycle.fail_to_start(instance)
                else:
                    on(self.runtime, instance)
            changes.append(_change(instance, before))
        return ActionResult({"StartingInstances": changes})

    def reboot_instances(self) -> EmptyResult:
        instances = self._named()
        for instance in instances:
            if instance.state != "running":
                raise _incorrect_state(instance, "rebooted")
        self.error_on_dryrun()
        for instance in instances:
            self.runtime.hypervisor.reboot(instance.id)
        return EmptyResult()

    def _named(self) -> list[Instance]:
        found: list[Instance] = self.ec2_backend.get_multi_instances_by_id(self._get_param("InstanceIds", []))
        return found


def _shown(instance: Instance) -> State:
    return {"Name": instance.state, "Code": instance.state_code}


def _change(instance: Instance, before: State) -> State:
    return {"InstanceId": instance.id, "PreviousState": before, "CurrentState": _shown(instance)}


def _incorrect_state(instance: Instance, verb: str) -> Ec2Error:
    return Ec2Error(
        "IncorrectInstanceState", f"This instance '{instance.id}' is not in a state from which it can be {verb}."
    )


def _check_stoppable(instance: Instance) -> None:
    if instance.lifecycle == "spot":
        raise Ec2Error(
            "UnsupportedOperation",
            f"You can't stop the Spot Instance '{instance.id}' because it is associated with a one-time Spot Instance "
            "request. You can only stop Spot Instances associated with persistent Spot Instance requests.",
        )
    if instance.disable_api_stop is True:
        raise Ec2Error(
            "OperationNotPermitted",
            f"The instance '{instance.id}' may not be stopped. Modify its 'disableApiStop' instance attribute and try "
            "again.",
        )
    if instance.state not in ("running", "stopping", "stopped"):
        raise _incorrect_state(instance, "stopped")


def _check_startable(runtime: Runtime, instance: Instance) -> None:
    if instance.state not in ("stopped", "pending", "running"):
        raise _incorrect_state(instance, "started")
    if instance.state == "stopped":
        reservations.check_start(instance.ec2_backend, instance)
        market = instance.lifecycle or "on-demand"
        quotas.check(runtime.faults, instance.ec2_backend, instance.instance_type, 1, market)
    zone = str(instance.placement.zone)
    if instance.state == "stopped" and runtime.faults.no_capacity(instance.instance_type, zone):
        raise insufficient_capacity(instance.instance_type, zone)
