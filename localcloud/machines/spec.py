"""The interface between the control plane and the machines.

The control plane (moto and our EC2 extensions) decides *that* an instance exists; a `Hypervisor` makes it run. Neither
imports the other; both import this file.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol


@dataclass(frozen=True)
class Interface:
    """One network interface as EC2 shows it; only the first has traffic on this machine."""

    interface_id: str
    mac: str
    private_ip: str | None
    device_index: int
    network_card_index: int
    interface_type: str  # interface | efa | efa-only
    security_group_ids: tuple[str, ...]


@dataclass(frozen=True)
class Hardware:
    """The hardware that an instance type claims to have: shown to the guest, never enforced."""

    vcpus: int
    memory_mib: int
    gpus: int
    gpu_name: str | None  # EC2's name, e.g. "NVIDIA A10G"; the driver uses other names
    gpu_memory_mib: int
    efa_interfaces: int
    instance_store_gb: tuple[int, ...] = ()  # of each NVMe disk of its own, 10^9 bytes
    instance_type: str = ""


@dataclass(frozen=True)
class Container:
    """A machine without an operating system: one program of the image, whose end is the machine's end."""

    command: tuple[str, ...]
    environment: Mapping[str, str]
    folders: Mapping[str, Path]  # path in the guest -> folder of this machine
    read_only: frozenset[str] = frozenset()  # of these paths
    host_name: str = "localhost"


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
    life_cycle: str = "on-demand"  # on-demand | spot | capacity-block, the metadata service's words
    container: Container | None = None


@dataclass(frozen=True)
class BootFault:
    """A fault for one instance before it starts: exactly what `localcloud fault` supports."""

    delay_s: float = 0.0
    never_boots: bool = False
    # command name (found on PATH in the guest) -> the line that it prints to stderr before it exits with code 1
    broken_commands: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Credentials:
    """Temporary credentials of an instance's role, in the metadata service's form."""

    role_name: str
    access_key_id: str
    secret_access_key: str
    session_token: str
    expiration: str  # ISO 8601, UTC


@dataclass(frozen=True)
class FileServer:
    """A file system of FSx or EFS in this cloud, as clients see it."""

    kind: str  # lustre | nfs
    folder: Path  # of this machine
    export: str  # the name that clients must use; "" if there is none
    system_id: str


class Unreachable(Exception):
    """The client's packets do not reach that server."""


class Metadata(Protocol):
    """Queries of the metadata service and the resolver to the control plane, at each request."""

    def tags(self, instance_id: str) -> Mapping[str, str]: ...

    def credentials(self, instance_id: str) -> Credentials | None: ...

    def instance_profile_arn(self, instance_id: str) -> str | None: ...

    def ssh_keys(self, instance_id: str, os_user: str) -> list[str]:
        """Public keys pushed by EC2 Instance Connect in the last 60 seconds."""
        ...

    def spot_interruption(self, instance_id: str) -> str | None:
        """ISO 8601 time of a pending spot interruption, or None."""
        ...

    def scheduled_events(self, instance_id: str) -> Sequence[Mapping[str, str]]:
        """As in the metadata: NotBefore, Code, Description, EventId, State."""
        ...

    def clock_ahead_s(self, instance_id: str) -> float:
        """By how much the instance's clock shall seem to be ahead of the time server's."""
        ...

    def has_no_metadata(self, instance_id: str) -> bool:
        """Whether the metadata service does not answer the instance now."""
        ...

    def dns_delay_s(self) -> float:
        """How much later the resolvers answer."""
        ...

    def survives_shutdown(self, instance_id: str) -> bool:
        """Whether a guest that powers itself off is stopped, and not terminated."""
        ...

    def resolve(self, vpc_id: str, name: str, record_type: str) -> list[str] | None:
        """Records from the VPC's private zones and instance names; None: not ours, ask upstream.

        `name` is lower case without the final dot; an empty list means that the name is ours and has no such record.
        """
        ...

    def file_server(self, client: InstanceSpec, address: str, *, tls: bool) -> FileServer | None:
        """The file system of the cloud with this address in the client's VPC. Raises Unreachable, PermissionError."""
        ...

    def lustre(self, request: Mapping[str, Any], uid: int) -> Mapping[str, object]:
        """Answers a request of `lfs`. Raises PermissionError, FileNotFoundError, OSError."""
        ...


class Hypervisor(Protocol):
    """Makes instances run. Every call returns soon; `running` shows the result."""

    def start(self, spec: InstanceSpec, fault: BootFault) -> None:
        """Boots a new instance, or a stopped one again with its disk, its volumes and the current `spec`."""
        ...

    def stop(self, instance_id: str, *, hard: bool = False) -> None:
        """Powers the guest off like `terminate`, but keeps its disk and volumes. Ignores unknown ids."""
        ...

    def reboot(self, instance_id: str) -> None:
        """Asks the guest's init to reboot."""
        ...

    def terminate(self, instance_id: str, *, hard: bool = False) -> None:
        """Shuts the guest down (30 s of grace) or, with `hard`, kills it at once. Ignores unknown ids."""
        ...

    def create_image(self, instance_id: str, image_id: str) -> None:
        """From now on, instances of `image_id` boot this instance's disk; returns once it is copied."""
        ...

    def delete_image(self, image_id: str) -> None:
        """No instance will be started from it any more; existing ones continue. Ignores unknown ids."""
        ...

    def state(self, instance_id: str) -> str | None:
        """pending | running | stopping | stopped | shutting-down | terminated; None: the id was never started."""
        ...

    def console_output(self, instance_id: str) -> str: ...

    def written(self, instance_id: str, start: int) -> bytes:
        """What a container's program has written to its output and errors, from this byte on."""
        ...

    def exit_code(self, instance_id: str) -> int | None:
        """How a container's program ended, as in a shell: 143 after SIGTERM. None: it runs, or it never started."""
        ...

    def signal(self, instance_id: str, number: int) -> bool:
        """Sends a signal to a container's program; False if it does not run, or not yet."""
        ...

    def refit(self, instance_id: str, hardware: Hardware) -> None:
        """From now on the running guest has this hardware; the next start brings back its own. Ignores unknown ids."""
        ...

    def log_kernel(self, instance_id: str, text: str) -> None:
        """Adds lines to the guest's kernel log. Raises OSError if the guest does not run."""
        ...

    def attach_volume(self, instance_id: str, volume_id: str, size_gib: int, device: str) -> None:
        """Shows a real block device in the guest like an NVMe disk, with its /dev/disk/by-id link.

        In a stopped guest it appears at the next start.
        """
        ...

    def detach_volume(self, instance_id: str, volume_id: str) -> None: ...

    def grow_volume(self, volume_id: str, size_gib: int) -> None: ...

    def delete_volume(self, volume_id: str) -> None: ...

    def snapshot_volume(self, volume_id: str, snapshot_id: str) -> None:
        """Copies the volume's content. A mounted file system is written to the volume first, and does not change
        meanwhile."""
        ...

    def restore_volume(self, snapshot_id: str, volume_id: str, size_gib: int) -> None:
        """The new volume has the snapshot's content, or none if the snapshot was of a volume without any."""
        ...

    def delete_snapshot(self, snapshot_id: str) -> None:
        """Ignores unknown ids."""
        ...

    def cut_network(self, instance_id: str) -> None:
        """No packet passes any longer. Raises ValueError for an unknown id."""
        ...

    def mend_network(self, instance_id: str) -> None:
        """Undoes `cut_network`. Ignores an instance that is gone."""
        ...

    def connect(self, vpc_id: str, private_ip: str, port: int) -> socket.socket:
        """A TCP connection from inside the VPC's network (for the Instance Connect Endpoint)."""
        ...

    def listen(self, address: str, port: int) -> socket.socket:
        """A listening TCP socket inside the VPC's network (the API endpoint for guests)."""
        ...

    def close(self) -> None:
        """Ends every instance and removes every namespace, mount, link and cgroup of this cloud."""
        ...
