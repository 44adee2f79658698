"""Instance states: moto's follow the hypervisor's, and moto tears down what an instance held once it is gone."""

from __future__ import annotations

from collections.abc import Iterator

from moto.ec2.models import EC2Backend, ec2_backends
from moto.ec2.models.instances import Instance

from localcloud.ec2 import block_devices
from localcloud.ec2.errors import Ec2Error
from localcloud.runtime import current

# why an instance ended without TerminateInstances
REASONS = {
    "Client.InstanceInitiatedShutdown": "Instance initiated shutdown",
    "Server.SpotInstanceTermination": "Spot instance termination",
    "Server.InternalError": "Internal error on launch or while running",
}
_untimely: dict[str, str] = {}
CODES = {"pending": 0, "running": 16, "shutting-down": 32, "terminated": 48}


def refresh(backend: EC2Backend) -> None:
    """Bring every instance's state up to date; called before any EC2 action looks at them."""
    for instance in backend.all_instances():
        if instance.state == "terminated":
            continue
        state = current().hypervisor.state(instance.id)
        if state == "terminated":
            _finish(backend, instance)
        elif state in CODES:
            instance._state.name, instance._state.code = state, CODES[state]


def terminate(instance: Instance, *, hard: bool = False) -> None:
    """Begin the end of an instance; `refresh` sees it through."""
    if instance.disable_api_termination is True:
        raise Ec2Error(
            "OperationNotPermitted",
            f"The instance '{instance.id}' may not be terminated. Modify its 'disableApiTermination' instance "
            "attribute and try again.",
        )
    if instance.state != "terminated":
        instance._state.name, instance._state.code = "shutting-down", CODES["shutting-down"]
        current().hypervisor.terminate(instance.id, hard=hard)


def end_by_itself(instance_id: str, code: str, *, hard: bool) -> None:
    """End an instance that nobody asked to end; `code` is one of REASONS."""
    _untimely[instance_id] = code
    current().hypervisor.terminate(instance_id, hard=hard)


def _finish(backend: EC2Backend, instance: Instance) -> None:
    """What EC2 does when a guest has gone: interfaces, addresses and volumes are freed or deleted."""
    asked = instance.state == "shutting-down"
    doomed = [block.volume_id for _, block in instance.get_block_device_mapping if block.delete_on_termination]
    kept = [block.volume_id for _, block in instance.get_block_device_mapping if not block.delete_on_termination]
    for slot, interface in list(instance.nics.items()):
        if not interface.delete_on_termination:
            instance.nics.pop(slot)
            instance.detach_eni(interface)
    instance.terminate()
    code = _untimely.pop(instance.id, None if asked else "Client.InstanceInitiatedShutdown")
    if code:
        instance._reason = code
        instance.state_reason.code = code
        instance.state_reason.message = f"{code}: {REASONS[code]}"
    for volume_id in kept:
        block_devices.detach(instance.id, volume_id)
    for volume_id in doomed:
        block_devices.delete(volume_id)


def all_backends() -> Iterator[EC2Backend]:
    """The EC2 backends that anything was done in."""
    for regions in list(ec2_backends.values()):
        yield from list(regions.values())


def find(instance_id: str) -> Instance | None:
    for backend in all_backends():
        if instance := backend.get_instance_by_id(instance_id):
            return instance
    return None
