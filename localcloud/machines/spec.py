"""What the control plane tells the machines, and what it may ask of them.

The control plane (moto and our EC2 extensions) decides *that* an instance exists; a `Hypervisor`
makes it run. Neither imports the other: both import this file.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol


@dataclass(frozen=True)
class Interface:
    """One network interface as EC2 shows it; only the first carries traffic on this machine."""

    interface_id: str
    mac: str
    private_ip: str | None
    device_index: int
    network_card_index: int
    interface_type: str  # interface | efa | efa-only
    security_group_ids: tuple[str, ...]


@dataclass(frozen=True)
class Hardware:
    """What an instance type pretends to have: shown to the guest, never enforced."""

    vcpus: int
    memory_mib: int
    gpus: int
    gpu_name: str | None  # as EC2 names it, e.g. "NVIDIA A10G"; the driver has names of its own
    gpu_memory_mib: int
    efa_interfaces: int
    instance_store_gb: tuple[int, ...] = ()  # of each NVMe disk of its own, 10^9 bytes
    instance_type: str = ""


@dataclass(frozen=True)
class InstanceSpec:
    """Everything that is fixed when an instance is launched."""

    instance_id: str
    image_id: str
    instance_type: str
    hardware: Hardware
    user_data: bytes
    account_id: str
    region: str
    availability_zone: str
    vpc_id: str
    vpc_cidr: str
    subnet_id: str
    subnet_cidr: str
    public: bool  # its subnet routes to an internet gateway
    internet: bool  # its subnet reaches the internet at all (gateway or NAT)
    interfaces: tuple[Interface, ...]  # [0] is the primary one
    launch_index: int = 0
    instance_metadata_tags: bool = False
    life_cycle: str = "on-demand"  # on-demand | spot | capacity-block, as the metadata service names it


@dataclass(frozen=True)
class BootFault:
    """A fault laid on one instance before it starts. Exactly what `localcloud fault` can ask for."""

    delay_s: float = 0.0
    never_boots: bool = False
    # command name (found on PATH in the guest) -> the line it prints to stderr before exiting 1
    broken_commands: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Credentials:
    """Temporary credentials of an instance's role, as the metadata service shows them."""

    role_name: str
    access_key_id: str
    secret_access_key: str
    session_token: str
    expiration: str  # ISO 8601, UTC


@dataclass(frozen=True)
class FileServer:
    """A file system that the cloud keeps, FSx's or EFS's, as clients find it."""

    kind: str  # lustre | nfs
    folder: Path  # of this machine
    export: str  # the name that clients must give; "" where there is none
    system_id: str


class Unreachable(Exception):
    """The client's packets do not get to that server."""


class Metadata(Protocol):
    """What the metadata service and the resolver ask the control plane, live, per request."""

    def tags(self, instance_id: str) -> Mapping[str, str]: ...

    def credentials(self, instance_id: str) -> Credentials | None: ...

    def instance_profile_arn(self, instance_id: str) -> str | None: ...

    def ssh_keys(self, instance_id: str, os_user: str) -> list[str]:
        """Public keys pushed by EC2 Instance Connect in the last 60 seconds."""
        ...

    def spot_interruption(self, instance_id: str) -> str | None:
        """ISO 8601 time of a pending spot interruption, or None."""
        ...

    def survives_shutdown(self, instance_id: str) -> bool:
        """Whether a guest that powers itself off is stopped, and not terminated, by that."""
        ...

    def resolve(self, vpc_id: str, name: str, record_type: str) -> list[str] | None:
        """Answer of the VPC's private zones and instance names; None: not ours, ask upstream.

        `name` is lower case without the final dot; an empty list means that the name is ours and
        has no such record.
        """
        ...

    def file_server(self, client: InstanceSpec, address: str, *, tls: bool) -> FileServer | None:
        """The file system of the cloud with this address in the client's VPC. Raises Unreachable, PermissionError."""
        ...

    def lustre(self, request: Mapping[str, Any], uid: int) -> Mapping[str, object]:
        """What `lfs` asks of a file system. Raises PermissionError, FileNotFoundError, OSError."""
        ...


class Hypervisor(Protocol):
    """Makes instances run. Every call returns soon; `running` tells what became of it."""

    def start(self, spec: InstanceSpec, fault: BootFault) -> None:
        """Boot a new instance, or a stopped one again: with its disk, its volumes and what `spec` says now."""
        ...

    def stop(self, instance_id: str, *, hard: bool = False) -> None:
        """Power the guest off as `terminate` does and keep its disk and volumes. Unknown ids: nothing."""
        ...

    def reboot(self, instance_id: str) -> None:
        """Ask the guest's init to start again."""
        ...

    def terminate(self, instance_id: str, *, hard: bool = False) -> None:
        """Shut the guest down (30 s of grace) or, with `hard`, kill it at once. Unknown ids: nothing."""
        ...

    def create_image(self, instance_id: str, image_id: str) -> None:
        """Instances of `image_id` boot, from now on, what is on this instance's disk; returns once it is copied."""
        ...

    def delete_image(self, image_id: str) -> None:
        """No instance will be started from it any more; those that were go on. Unknown ids: nothing."""
        ...

    def state(self, instance_id: str) -> str | None:
        """pending | running | stopping | stopped | shutting-down | terminated; None: the id was never started."""
        ...

    def console_output(self, instance_id: str) -> str: ...

    def attach_volume(self, instance_id: str, volume_id: str, size_gib: int, device: str) -> None:
        """A real block device appears in the guest as NVMe does, with its /dev/disk/by-id link.

        In a stopped guest it appears when that starts.
        """
        ...

    def detach_volume(self, instance_id: str, volume_id: str) -> None: ...

    def grow_volume(self, volume_id: str, size_gib: int) -> None: ...

    def delete_volume(self, volume_id: str) -> None: ...

    def connect(self, vpc_id: str, private_ip: str, port: int) -> socket.socket:
        """A TCP connection from inside the VPC's network (the Instance Connect Endpoint's way in)."""
        ...

    def listen(self, address: str, port: int) -> socket.socket:
        """A listening TCP socket inside the VPC's network (the API endpoint as guests see it)."""
        ...

    def close(self) -> None:
        """End every instance and remove every namespace, mount, link and cgroup this owns."""
        ...
