"""A hypervisor for tests with a stub of the control plane, and helpers for its guests."""

from __future__ import annotations

import secrets
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from localcloud.machines import cgroups, doctor, image, leftovers
from localcloud.machines.hypervisor import NspawnHypervisor
from localcloud.machines.spec import BootFault, Credentials, FileServer, Hardware, InstanceSpec, Interface
from localcloud.testing import patience

BOOT_TIMEOUT_S = 60
VPC, SUBNET, CLOSED_SUBNET = "vpc-0a1b2c3d4e5f60718", "subnet-0a1b2c3d4e5f60718", "subnet-0a1b2c3d4e5f60719"
SERVER, CLIENT = 10, 11
CLOUD_INIT_DONE = "Reached target \x1b[0;1;39mcloud-init.target"


class StubMetadata:
    """A control plane that knows two addresses, one role and the keys that a test pushes."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.survives = False
        self.ahead_s = 0.0
        self.no_metadata: set[str] = set()
        self.slow_dns_s = 0.0

    def tags(self, instance_id: str) -> Mapping[str, str]:
        return {"Name": "stub"}

    def credentials(self, instance_id: str) -> Credentials | None:
        return Credentials("stub-role", "ASIASTUB", "secret", "token", "2099-01-01T00:00:00Z")

    def instance_profile_arn(self, instance_id: str) -> str | None:
        return "arn:aws:iam::123456789012:instance-profile/stub"

    def ssh_keys(self, instance_id: str, os_user: str) -> list[str]:
        return self.keys if os_user == "ubuntu" else []

    def spot_interruption(self, instance_id: str) -> str | None:
        return None

    def scheduled_events(self, instance_id: str) -> list[dict[str, str]]:
        return []

    def clock_ahead_s(self, instance_id: str) -> float:
        return self.ahead_s

    def has_no_metadata(self, instance_id: str) -> bool:
        return instance_id in self.no_metadata

    def dns_delay_s(self) -> float:
        return self.slow_dns_s

    def survives_shutdown(self, instance_id: str) -> bool:
        return self.survives

    def resolve(self, vpc_id: str, name: str, record_type: str) -> list[str] | None:
        if not name.endswith((".ec2.internal", ".zone.internal")):
            return None
        known = {"head.zone.internal": "10.0.1.10", "ip-10-0-1-11.ec2.internal": "10.0.1.11"}
        return [known[name]] if record_type == "A" and name in known else []

    def file_server(self, client: InstanceSpec, address: str, *, tls: bool) -> FileServer | None:
        return None

    def lustre(self, request: Mapping[str, Any], uid: int) -> Mapping[str, object]:
        raise FileNotFoundError


def spec(number: int, *, user_data: bytes = b"", internet: bool = True) -> InstanceSpec:
    third, subnet = (1, SUBNET) if internet else (2, CLOSED_SUBNET)
    primary = Interface(
        f"eni-{number:017x}", f"02:00:0a:00:0{third}:{number:02x}", f"10.0.{third}.{number}", 0, 0, "efa", ("sg-1",)
    )
    second = Interface(f"eni-1{number:016x}", f"02:00:0a:01:0{third}:{number:02x}", None, 1, 1, "efa-only", ("sg-1",))
    return InstanceSpec(
        instance_id=f"i-{third}{number:016x}",
        image_id="ami-0123456789abcdef0",
        instance_type="g5.12xlarge",
        hardware=Hardware(48, 196608, 4, "NVIDIA A10G", 23028, 1),
        user_data=user_data,
        account_id="123456789012",
        region="us-east-1",
        availability_zone="us-east-1a",
        vpc_id=VPC,
        vpc_cidr="10.0.0.0/16",
        subnet_id=subnet,
        subnet_cidr=f"10.0.{third}.0/24",
        public=False,
        internet=internet,
        interfaces=(primary, second),
        instance_metadata_tags=True,
    )


def instance_id(number: int, third: int = 1) -> str:
    return f"i-{third}{number:016x}"


class Guests:
    """A hypervisor with its stub, and helpers for its guests."""

    def __init__(self, state_dir: Path, wheels: Path) -> None:
        self.metadata = StubMetadata()
        self.state_dir = state_dir
        self.cloud_id = secrets.token_hex(2)
        self.hypervisor = NspawnHypervisor(self.cloud_id, state_dir, image.build(), self.metadata, wheels)

    def boot(self, *specs: InstanceSpec, fault: BootFault | None = None) -> None:
        for one in specs:
            self.hypervisor.start(one, fault or BootFault())
        for one in specs:
            self.await_console(one.instance_id, "Reached target")

    def await_console(self, instance: str, words: str) -> str:
        await_true(
            lambda: words in self.hypervisor.console_output(instance), lambda: self.hypervisor.console_output(instance)
        )
        return self.hypervisor.console_output(instance)

    def run(self, instance: str, command: str, *, check: bool = True) -> str:
        """Runs a shell command in the guest, as root, without its network."""
        leader = self.hypervisor._machines[instance].leader()
        argv = ["nsenter", "--target", str(leader), "--all", "sh", "-c", command]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
        assert not check or done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout + done.stderr


def await_true(condition: Callable[[], bool], explain: Callable[[], str], timeout_s: float = BOOT_TIMEOUT_S) -> None:
    deadline = patience.seconds() + timeout_s
    while not condition():
        assert patience.seconds() < deadline, f"nothing after {timeout_s} s: {explain()[-3000:]}"
        time.sleep(0.1)


@contextmanager
def opened(wheels: Path, *specs: InstanceSpec) -> Iterator[Guests]:
    """With booted instances; everything that it created is removed afterwards."""
    troubles = [f"{finding.name}: {finding.found}" for finding in doctor.findings() if not finding.ok]
    if troubles:
        pytest.skip(f"this machine cannot boot instances: {'; '.join(troubles)}")
    (wheels / "example.whl").touch()
    state_dir = Path("/var/lib/localcloud") / f"test-{secrets.token_hex(2)}"
    guests = Guests(state_dir, wheels)
    try:
        guests.boot(*specs)
        yield guests
    finally:
        guests.hypervisor.close()
        left = leftovers.clean(state_dir)
        state_dir.rmdir()
        assert left == []


def end(guests: Guests, instance: str, *, hard: bool = False) -> None:
    guests.hypervisor.terminate(instance, hard=hard)
    await_true(lambda: guests.hypervisor.state(instance) == "terminated", lambda: "not terminated", 120)


def traces(guests: Guests, instance: str) -> list[str]:
    """Everything of an instance that is still on the host."""
    mounts = [line for line in Path("/proc/mounts").read_text().splitlines() if instance in line]
    namespaces = [path.name for path in Path("/run/netns").iterdir() if instance in path.name]
    groups = [str(root) for root in cgroups.hierarchies() if (root / f"lc-{guests.cloud_id}" / instance).exists()]
    return [*mounts, *namespaces, *groups, *map(str, cgroups.pids(f"lc-{guests.cloud_id}/{instance}"))]


def await_state(guests: Guests, instance: str, state: str) -> None:
    await_true(lambda: guests.hypervisor.state(instance) == state, lambda: f"not {state}", 40)
