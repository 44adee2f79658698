"""A hypervisor that keeps states and boots nothing, for the control plane alone."""

from __future__ import annotations

import socket
import threading
import time
from dataclasses import dataclass

from localcloud.machines.spec import BootFault, Hardware, InstanceSpec

PENDING_S = 0.2
SHUTTING_DOWN_S = 0.2
_ENDING = {"stopped": "stopping", "terminated": "shutting-down"}


@dataclass
class _Machine:
    running_at: float
    ends_at: float | None = None
    end: str = "terminated"  # or stopped


class NoBoot:
    """`localcloud.machines.spec.Hypervisor` without machines; instances become running after a moment."""

    def __init__(self) -> None:
        self._machines: dict[str, _Machine] = {}
        self._lock = threading.Lock()

    def start(self, spec: InstanceSpec, fault: BootFault) -> None:
        with self._lock:
            running_at = time.monotonic() + PENDING_S + fault.delay_s
            self._machines[spec.instance_id] = _Machine(running_at, running_at if spec.container else None)

    def stop(self, instance_id: str, *, hard: bool = False) -> None:
        self._end(instance_id, "stopped", hard)

    def reboot(self, instance_id: str) -> None:
        """Does nothing: no machine can ask."""

    def terminate(self, instance_id: str, *, hard: bool = False) -> None:
        self._end(instance_id, "terminated", hard)

    def _end(self, instance_id: str, end: str, hard: bool) -> None:
        with self._lock:
            machine = self._machines.get(instance_id)
            if machine and (machine.ends_at is None or (machine.end, end) == ("stopped", "terminated")):
                machine.ends_at, machine.end = time.monotonic() + (0 if hard else SHUTTING_DOWN_S), end

    def create_image(self, instance_id: str, image_id: str) -> None:
        """Writes no disk, but the caller sees the image as pending."""
        time.sleep(PENDING_S)

    def delete_image(self, image_id: str) -> None:
        """Nothing was stored."""

    def state(self, instance_id: str) -> str | None:
        now = time.monotonic()
        with self._lock:
            machine = self._machines.get(instance_id)
            if machine is None:
                return None
            if machine.ends_at is not None:
                return machine.end if now >= machine.ends_at else _ENDING[machine.end]
            return "running" if now >= machine.running_at else "pending"

    def console_output(self, instance_id: str) -> str:
        return ""

    def written(self, instance_id: str, start: int) -> bytes:
        return b""

    def exit_code(self, instance_id: str) -> int | None:
        return 0 if self.state(instance_id) == "terminated" else None

    def signal(self, instance_id: str, number: int) -> bool:
        return False  # no program runs

    def refit(self, instance_id: str, hardware: Hardware) -> None:
        """No guest would see it."""

    def log_kernel(self, instance_id: str, text: str) -> None:
        """No guest would read it."""

    def attach_volume(self, instance_id: str, volume_id: str, size_gib: int, device: str) -> None:
        """Nothing to attach to."""

    def detach_volume(self, instance_id: str, volume_id: str) -> None:
        """Nothing is attached."""

    def grow_volume(self, volume_id: str, size_gib: int) -> None:
        """No device has that size."""

    def delete_volume(self, volume_id: str) -> None:
        """Nothing was written."""

    def snapshot_volume(self, volume_id: str, snapshot_id: str) -> None:
        """No volume has content."""

    def restore_volume(self, snapshot_id: str, volume_id: str, size_gib: int) -> None:
        """No snapshot has content."""

    def delete_snapshot(self, snapshot_id: str) -> None:
        """Nothing was written."""

    def cut_network(self, instance_id: str) -> None:
        if instance_id not in self._machines:
            raise ValueError(f"no instance {instance_id} runs in this cloud")

    def mend_network(self, instance_id: str) -> None:
        """It has no network."""

    def connect(self, vpc_id: str, private_ip: str, port: int) -> socket.socket:
        raise ConnectionRefusedError(f"{private_ip}:{port}: this cloud runs with --no-boot, no machine answers")

    def listen(self, address: str, port: int) -> socket.socket:
        raise OSError(f"{address}:{port}: this cloud runs with --no-boot and has no VPC network")

    def close(self) -> None:
        self._machines.clear()
