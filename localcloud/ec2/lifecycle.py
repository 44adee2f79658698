"""Instance states: moto's follow the hypervisor's, and moto releases an instance's resources once it is terminated."""

from __future__ import annotations

from collections.abc import Iterator

from moto.ec2.models import EC2Backend, ec2_backends
from moto.ec2.models.instances import Instance

from localcloud.ec2.disks import block_devices
from localcloud.ec2.errors import Ec2Error
from localcloud.machines.spec import Hypervisor
from localcloud.runtime import Runtime

# why an instance ended or stopped without a request
REASONS = {
    "Client.InternalError": "Client error on launch",
    "Client.InstanceInitiatedShutdown": "Instance initiated shutdown",
    "Server.SpotInstanceTermination": "Spot instance termination",
    "Server.InternalError": "Internal error on launch or while running",
}
_untimely: dict[str, str] = {}
_asked: set[str] = set()  # ids of instances that an API call stops or terminates
CODES = {"pending": 0, "running": 16, "shutting-down": 32, "terminated": 48, "stopping": 64, "stopped": 80}


def refresh(runtime: Runtime, backend: EC2Backend) -> None:
    """Updates every instance's state; called before each EC2 action."""
    for instance in backend.all_instances():
        if instance.state == "terminated":
            continue
        state = runtime.pace.state(instance.id, instance.instance_type, runtime.hypervisor.state(instance.id))
        if state == "terminated":
            _finish(runtime.hypervisor, backend, instance)
        elif state == "stopped" and instance.state != "stopped":
            _come_to_rest(instance)
        elif state in CODES:
            show(instance, state)


def show(instance: Instance, state: str) -> None:
    instance._state.name, instance._state.code = state, CODES[state]


def survives_shutdown(instance: Instance) -> bool:
    """Whether a guest that powers itself off is stopped; a spot instance of a one-time request never is."""
    return instance.instance_initiated_shutdown_behavior == "stop" and instance.lifecycle != "spot"


def stop(hypervisor: Hypervisor, instance: Instance, *, hard: bool = False) -> None:
    """Starts to stop a running instance; `refresh` completes it."""
    show(instance, "stopping")
    _asked.add(instance.id)
    hypervisor.stop(instance.id, hard=hard)


def _come_to_rest(instance: Instance) -> None:
    """What EC2 does after a guest has stopped: an address from the launch returns to the pool."""
    instance.stop()
    code = _untimely.pop(instance.id, None if _was_asked(instance) else "Client.InstanceInitiatedShutdown")
    if code:
        _tell(instance, code)


def fail_to_start(instance: Instance) -> None:
    """EC2 may not use a key of its disks: `refresh` finds it stopped again. The reason's words:
    https://repost.aws/knowledge-center/kms-iam-ec2-permission."""
    _untimely[instance.id] = "Client.InternalError"


def _was_asked(instance: Instance) -> bool:
    asked = instance.id in _asked
    _asked.discard(instance.id)
    return asked


def _tell(instance: Instance, code: str) -> None:
    instance._reason = code
    instance.state_reason.code = code
    instance.state_reason.message = f"{code}: {REASONS[code]}"


def terminate(hypervisor: Hypervisor, instance: Instance, *, hard: bool = False) -> None:
    """Starts to terminate an instance; `refresh` completes it."""
    if instance.disable_api_termination is True:
        raise Ec2Error(
            "OperationNotPermitted",
            f"The instance '{instance.id}' may not be terminated. Modify its 'disableApiTermination' instance "
            "attribute and try again.",
        )
    if instance.state != "terminated":
        show(instance, "shutting-down")
        _asked.add(instance.id)
        hypervisor.terminate(instance.id, hard=hard)


def end_by_itself(hypervisor: Hypervisor, instance_id: str, code: str, *, hard: bool) -> None:
    """Ends an instance without a request; `code` is one of REASONS."""
    _untimely[instance_id] = code
    hypervisor.terminate(instance_id, hard=hard)


def _finish(hypervisor: Hypervisor, backend: EC2Backend, instance: Instance) -> None:
    """What EC2 does after a guest has ended: interfaces, addresses and volumes are released or deleted."""
    asked = _was_asked(instance)
    doomed = [block.volume_id for _, block in instance.get_block_device_mapping if block.delete_on_termination]
    kept = [block.volume_id for _, block in instance.get_block_device_mapping if not block.delete_on_termination]
    for slot, interface in list(instance.nics.items()):
        if not interface.delete_on_termination:
            instance.nics.pop(slot)
            instance.detach_eni(interface)
    instance.terminate()
    code = _untimely.pop(instance.id, None if asked else "Client.InstanceInitiatedShutdown")
    if code:
        _tell(instance, code)
    for volume_id in kept:
        block_devices.detach(hypervisor, instance.id, volume_id)
    for volume_id in doomed:
        block_devices.delete(hypervisor, volume_id)


def all_backends() -> Iterator[EC2Backend]:
    """The EC2 backends that have been used."""
    for regions in list(ec2_backends.values()):
        yield from list(regions.values())


def find(instance_id: str) -> Instance | None:
    for backend in all_backends():
        if instance := backend.get_instance_by_id(instance_id):
            return instance
    return None
