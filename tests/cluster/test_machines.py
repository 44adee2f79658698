"""The hypervisor alone: two instances really boot, with a stub in the control plane's place."""

from __future__ import annotations

import dataclasses
import os
import secrets
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import paramiko
import pytest

from localcloud.machines import cgroups, doctor, image, leftovers
from localcloud.machines.hypervisor import NspawnHypervisor
from localcloud.machines.spec import (
    BootFault,
    Credentials,
    Hardware,
    InstanceSpec,
    Interface,
)

BOOT_TIMEOUT_S = 60
VPC, SUBNET, CLOSED_SUBNET = "vpc-0a1b2c3d4e5f60718", "subnet-0a1b2c3d4e5f60718", "subnet-0a1b2c3d4e5f60719"
SERVER, CLIENT = 10, 11
USER_DATA = b"""#!/bin/bash
set -x
hostname
getent hosts head.zone.internal
getent hosts ip-10-0-1-11
curl -s -o /dev/null -w 'without-token=%{http_code}\\n' http://169.254.169.254/latest/meta-data/
aws configure list
apt-get -q update >/dev/null && echo packages-reachable
ls -l /opt/wheels | head -2
nvidia-smi -L
echo user-data-done
"""


class StubMetadata:
    """A control plane that knows two addresses, one role and the keys that a test pushes."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.survives = False

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

    def survives_shutdown(self, instance_id: str) -> bool:
        return self.survives

    def resolve(self, vpc_id: str, name: str, record_type: str) -> list[str] | None:
        if not name.endswith((".ec2.internal", ".zone.internal")):
            return None
        known = {"head.zone.internal": "10.0.1.10", "ip-10-0-1-11.ec2.internal": "10.0.1.11"}
        return [known[name]] if record_type == "A" and name in known else []


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
    """A hypervisor with its stub, and what a test does with its guests."""

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
        """Run a shell command in the guest, as root, past its network."""
        leader = self.hypervisor._machines[instance].leader()
        argv = ["nsenter", "--target", str(leader), "--all", "sh", "-c", command]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
        assert not check or done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout + done.stderr


def await_true(condition: Callable[[], bool], explain: Callable[[], str], timeout_s: float = BOOT_TIMEOUT_S) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"nothing after {timeout_s} s: {explain()[-3000:]}"
        time.sleep(0.1)


@pytest.fixture(scope="module")
def guests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guests]:
    troubles = [f"{finding.name}: {finding.found}" for finding in doctor.findings() if not finding.ok]
    if troubles:
        pytest.skip(f"this machine cannot boot instances: {'; '.join(troubles)}")
    wheels = tmp_path_factory.mktemp("wheels")
    (wheels / "example.whl").touch()
    state_dir = Path("/var/lib/localcloud") / f"test-{secrets.token_hex(2)}"
    guests = Guests(state_dir, wheels)
    try:
        guests.boot(spec(SERVER, user_data=USER_DATA), spec(CLIENT))
        yield guests
    finally:
        guests.hypervisor.close()
        left = leftovers.clean(state_dir)
        state_dir.rmdir()
        assert left == []


def test_user_data_runs_in_a_machine_that_looks_like_ec2(guests: Guests) -> None:
    server = instance_id(SERVER)
    guests.await_console(server, "user-data-done")
    said = guests.run(server, "cloud-init status --wait; cat /var/log/cloud-init-output.log")
    assert "status: done" in said
    for words in (
        "ip-10-0-1-10",
        "10.0.1.10       head.zone.internal",
        "10.0.1.11       ip-10-0-1-11.ec2.internal",
        "without-token=401",
        "iam-role",
        "packages-reachable",
        "example.whl",
        "GPU 3: NVIDIA A10G",
    ):
        assert words in said


def test_metadata_needs_a_token_of_the_same_instance(guests: Guests) -> None:
    server, client = instance_id(SERVER), instance_id(CLIENT)
    ask = (
        "curl -s -w '%{http_code}' http://169.254.169.254/latest/meta-data/instance-id -H 'X-aws-ec2-metadata-token: '"
    )
    token = "curl -s -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 60' http://169.254.169.254/latest/api/token"
    granted = guests.run(server, token)
    assert guests.run(server, f"{ask}{granted}") == f"{server}200"
    assert guests.run(client, f"{ask}{granted}") == "401"
    assert guests.run(server, f"{token.replace('60', '0')} -o /dev/null -w '%{{http_code}}'") == "400"


def test_environment_names_the_endpoint_for_everyone(guests: Guests) -> None:
    server = instance_id(SERVER)
    assert "AWS_ENDPOINT_URL=http://169.254.169.251" in guests.run(server, "systemd-run -q --pipe --wait env")
    assert "169.254.169.251" in guests.run(server, "cat /etc/environment")


def test_pushed_key_opens_a_session_through_connect(guests: Guests) -> None:
    key = paramiko.ECDSAKey.generate()
    guests.metadata.keys = [f"{key.get_name()} {key.get_base64()}"]
    guests.await_console(instance_id(CLIENT), "OpenBSD Secure Shell server")
    connection = guests.hypervisor.connect(VPC, "10.0.1.11", 22)
    with paramiko.Transport(connection) as transport:
        transport.connect(username="ubuntu", pkey=key)
        channel = transport.open_session()
        channel.exec_command("id -un; sudo id -un; echo $AWS_ENDPOINT_URL")
        said = channel.makefile().read().decode()
    guests.metadata.keys = []
    assert said.split() == ["ubuntu", "root", "http://169.254.169.251"]


def test_listen_is_reached_from_guests_and_not_from_the_host(guests: Guests) -> None:
    with guests.hypervisor.listen("169.254.169.251", 80) as listener:
        listener.settimeout(10)
        guests.run(instance_id(CLIENT), "curl -s -m 5 http://169.254.169.251/ >/tmp/answer 2>/dev/null &")
        connection, _ = listener.accept()
        with connection:
            connection.recv(4096)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
    await_true(lambda: guests.run(instance_id(CLIENT), "cat /tmp/answer") == "hi", lambda: "no answer", 5)


def test_volume_keeps_its_files_from_one_attachment_to_the_next(guests: Guests) -> None:
    server, client = instance_id(SERVER), instance_id(CLIENT)
    link = "/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_vol0123"
    guests.hypervisor.attach_volume(client, "vol-0123", 1, "/dev/sdf")
    guests.run(client, f"mkfs.ext4 -q {link} && mount /dev/sdf /mnt && echo kept >/mnt/file && umount /mnt")
    guests.hypervisor.detach_volume(client, "vol-0123")
    assert guests.run(client, f"test -e {link}; echo $?") == "1\n"
    guests.hypervisor.attach_volume(server, "vol-0123", 1, "/dev/sdf")
    assert guests.run(server, f"mount {link} /mnt && cat /mnt/file && umount /mnt") == "kept\n"
    guests.hypervisor.detach_volume(server, "vol-0123")
    guests.hypervisor.delete_volume("vol-0123")
    assert leftovers.loops_below(guests.state_dir) == []


def test_reboot_keeps_files_address_and_volumes(guests: Guests) -> None:
    one = spec(50)
    guests.boot(one)
    guests.hypervisor.attach_volume(one.instance_id, "vol-0999", 1, "/dev/sdf")
    booted = "Reached target \x1b[0;1;39mcloud-init.target"
    guests.await_console(one.instance_id, booted)
    guests.run(
        one.instance_id, "touch /root/kept; systemctl reboot", check=False
    )  # it may lose its bus as it says goodbye
    await_true(lambda: guests.hypervisor.console_output(one.instance_id).count(booted) == 2, lambda: "no reboot")
    after = guests.run(one.instance_id, "ls /root/kept; test -b /dev/sdf && echo disk; hostname; hostname -I")
    assert after.split() == ["/root/kept", "disk", "ip-10-0-1-50", "10.0.1.50"]
    end(guests, one.instance_id, hard=True)
    guests.hypervisor.delete_volume("vol-0999")


CLOUD_INIT_DONE = "Reached target \x1b[0;1;39mcloud-init.target"


def await_state(guests: Guests, instance: str, state: str) -> None:
    await_true(lambda: guests.hypervisor.state(instance) == state, lambda: f"not {state}", 40)


def test_stopped_machine_starts_again_with_its_disk_and_volumes(guests: Guests) -> None:
    one = spec(51, user_data=b"#!/bin/sh\necho run >>/root/user-data-runs\n")
    guests.boot(one)
    guests.await_console(one.instance_id, CLOUD_INIT_DONE)
    guests.hypervisor.attach_volume(one.instance_id, "vol-0998", 1, "/dev/sdf")
    guests.run(one.instance_id, "mkfs.ext4 -q /dev/sdf && mount /dev/sdf /mnt && echo disk >/mnt/file")
    guests.hypervisor.stop(one.instance_id)
    await_state(guests, one.instance_id, "stopped")
    assert traces(guests, one.instance_id) == []
    larger = dataclasses.replace(one, instance_type="g5.xlarge", hardware=Hardware(4, 16384, 1, "NVIDIA A10G", 1, 0))
    guests.hypervisor.start(larger, BootFault())
    await_true(lambda: guests.hypervisor.console_output(one.instance_id).count(CLOUD_INIT_DONE) == 2, lambda: "no boot")
    after = guests.run(one.instance_id, "cat /root/user-data-runs; hostname -I; nvidia-smi -L | wc -l")
    assert after.split() == ["run", "10.0.1.51", "1"]  # user data runs once in an instance's life
    assert guests.run(one.instance_id, "mount /dev/sdf /mnt && cat /mnt/file && umount /mnt") == "disk\n"
    guests.hypervisor.stop(one.instance_id, hard=True)
    await_state(guests, one.instance_id, "stopped")
    guests.hypervisor.detach_volume(one.instance_id, "vol-0998")
    guests.hypervisor.attach_volume(instance_id(CLIENT), "vol-0998", 1, "/dev/sdf")
    moved = guests.run(instance_id(CLIENT), "mount /dev/sdf /mnt && cat /mnt/file && umount /mnt")
    assert moved == "disk\n"
    guests.hypervisor.detach_volume(instance_id(CLIENT), "vol-0998")
    guests.hypervisor.delete_volume("vol-0998")
    guests.hypervisor.terminate(one.instance_id)
    assert guests.hypervisor.state(one.instance_id) == "terminated"
    assert not (guests.state_dir / "machines" / one.instance_id / "upper").exists()


@pytest.mark.parametrize(("survives", "state"), [(True, "stopped"), (False, "terminated")])
def test_machine_that_powers_itself_off(guests: Guests, survives: bool, state: str) -> None:
    one = spec(52 + survives)
    guests.metadata.survives = survives
    guests.boot(one)
    guests.await_console(one.instance_id, CLOUD_INIT_DONE)
    guests.run(one.instance_id, "systemctl poweroff", check=False)
    await_state(guests, one.instance_id, state)
    guests.metadata.survives = False
    guests.hypervisor.terminate(one.instance_id)
    assert guests.hypervisor.state(one.instance_id) == "terminated"


def test_reboot_from_outside(guests: Guests) -> None:
    one = spec(54)
    guests.boot(one)
    guests.await_console(one.instance_id, CLOUD_INIT_DONE)
    guests.hypervisor.reboot(one.instance_id)
    await_true(
        lambda: guests.hypervisor.console_output(one.instance_id).count(CLOUD_INIT_DONE) == 2, lambda: "no reboot"
    )
    assert guests.hypervisor.state(one.instance_id) == "running"
    end(guests, one.instance_id, hard=True)


def test_nfs_shows_a_disk_that_the_server_mounted_after_its_boot(guests: Guests) -> None:
    server, client = instance_id(SERVER), instance_id(CLIENT)
    guests.hypervisor.attach_volume(server, "vol-0456", 1, "/dev/sdg")
    guests.run(server, "mkfs.ext4 -q /dev/sdg && mkdir /export && mount /dev/sdg /export && echo shared >/export/file")
    guests.run(client, "timeout 30 sh -c 'until getent ahostsv4 head.zone.internal; do sleep 0.5; done'")
    early = guests.run(
        client, "mkdir /shared; mount -t nfs4 -o retry=0 head.zone.internal:/export /shared", check=False
    )
    assert "connection refused" in early
    guests.run(
        server, "echo '/export 10.0.0.0/16(rw,no_root_squash)' >/etc/exports.d/test.exports; systemctl start nfs-server"
    )
    guests.run(client, "mount -t nfs4 -o nfsvers=4.2,hard head.zone.internal:/export /shared && mountpoint -q /shared")
    guests.run(client, "cat /shared/file && echo back >/shared/answer")
    assert guests.run(server, "cat /export/answer") == "back\n"
    denied = guests.run(client, "mount -t nfs4 head.zone.internal:/etc /mnt", check=False)
    assert "access denied by server" in denied  # and /shared stays mounted: the end of both guests must free the disk


def test_subnet_without_internet_reaches_neighbours_and_metadata_only(guests: Guests) -> None:
    closed = spec(20, internet=False)
    guests.boot(closed)
    guests.await_console(closed.instance_id, "OpenBSD Secure Shell server")
    ping = guests.run(closed.instance_id, "ping -c1 -W5 10.0.1.10 >/dev/null && echo neighbour")
    outside = guests.run(closed.instance_id, f"curl -s -m 3 -o /dev/null {image.inspect_host().mirror}/; echo $?")
    assert (ping, outside) == ("neighbour\n", "28\n")
    end(guests, closed.instance_id)


def end(guests: Guests, instance: str, *, hard: bool = False) -> None:
    guests.hypervisor.terminate(instance, hard=hard)
    await_true(lambda: guests.hypervisor.state(instance) == "terminated", lambda: "not terminated", 40)


def traces(guests: Guests, instance: str) -> list[str]:
    """Whatever of an instance is still on the host."""
    mounts = [line for line in Path("/proc/mounts").read_text().splitlines() if instance in line]
    namespaces = [path.name for path in Path("/run/netns").iterdir() if instance in path.name]
    groups = [str(root) for root in cgroups.hierarchies() if (root / f"lc-{guests.cloud_id}" / instance).exists()]
    return [*mounts, *namespaces, *groups, *map(str, cgroups.pids(f"lc-{guests.cloud_id}/{instance}"))]


@pytest.mark.parametrize("hard", [False, True])
def test_terminate_leaves_nothing_of_an_instance(guests: Guests, hard: bool) -> None:
    victim = spec(30 + hard)
    guests.boot(victim)
    guests.hypervisor.attach_volume(victim.instance_id, "vol-0789", 1, "/dev/sdf")
    assert traces(guests, victim.instance_id)
    end(guests, victim.instance_id, hard=hard)
    assert traces(guests, victim.instance_id) == []
    assert leftovers.loops_below(guests.state_dir / "volumes" / "vol-0789") == []
    guests.hypervisor.delete_volume("vol-0789")


def test_two_vpcs_may_use_the_same_addresses(guests: Guests) -> None:
    twin = dataclasses.replace(spec(SERVER), instance_id=instance_id(60), vpc_id="vpc-0ffffffffffffffff")
    guests.boot(twin)
    guests.await_console(twin.instance_id, "Reached target \x1b[0;1;39mcloud-init.target")
    token = "$(curl -s -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 60' http://169.254.169.254/latest/api/token)"
    identity = "http://169.254.169.254/latest/meta-data/instance-id"
    ask = f'curl -s -H "X-aws-ec2-metadata-token: {token}" {identity}; echo; hostname -I'
    assert guests.run(twin.instance_id, ask).split() == [twin.instance_id, "10.0.1.10"]
    assert guests.run(instance_id(SERVER), ask).split() == [instance_id(SERVER), "10.0.1.10"]
    end(guests, twin.instance_id)
    assert not list(Path("/run/netns").glob(f"lc-{guests.cloud_id}-{twin.vpc_id}"))


def test_slow_boot_runs_and_says_nothing_until_it_is_ended(guests: Guests) -> None:
    slow = spec(42)
    guests.hypervisor.start(slow, BootFault(delay_s=600))
    await_true(lambda: guests.hypervisor.state(slow.instance_id) == "running", lambda: "not running", 10)
    assert guests.hypervisor.console_output(slow.instance_id) == ""
    guests.hypervisor.terminate(slow.instance_id)
    await_true(lambda: guests.hypervisor.state(slow.instance_id) == "terminated", lambda: "not terminated", 5)
    assert traces(guests, slow.instance_id) == []


def test_machine_that_never_boots_says_why(guests: Guests) -> None:
    dead = spec(40)
    guests.hypervisor.start(dead, BootFault(never_boots=True))
    assert "never-boots" in guests.await_console(dead.instance_id, "fault")
    await_true(lambda: guests.hypervisor.state(dead.instance_id) == "running", lambda: "not running", 10)
    end(guests, dead.instance_id)


def test_broken_command_fails_by_name_and_by_path(guests: Guests) -> None:
    fault = BootFault(broken_commands={"munged": "no key, says the test"})
    broken = spec(41, user_data=b"#!/bin/sh\nmunged\n/usr/sbin/munged --version\necho exit=$? | tee /dev/console\n")
    guests.hypervisor.start(broken, fault)
    guests.await_console(broken.instance_id, "exit=1")
    assert guests.hypervisor.console_output(broken.instance_id).count("no key, says the test") == 2
    end(guests, broken.instance_id)


KILLED_SERVER = """
import sys, time
sys.path[:0] = {paths!r}
from pathlib import Path
import test_machines as t
guests = t.Guests(Path({state_dir!r}), Path({wheels!r}))
guests.boot(t.spec(10))
guests.hypervisor.attach_volume(t.instance_id(10), "vol-1", 1, "/dev/sdf")
print(guests.cloud_id, flush=True)
time.sleep(600)
"""


def test_what_a_killed_server_leaves_can_be_cleaned(guests: Guests, tmp_path: Path) -> None:
    state_dir = Path("/var/lib/localcloud") / f"test-killed-{secrets.token_hex(2)}"
    paths = [str(Path(__file__).parent), str(Path(__file__).parents[2])]
    script = textwrap.dedent(KILLED_SERVER).format(paths=paths, state_dir=str(state_dir), wheels=str(tmp_path))
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout
        cloud_id = server.stdout.readline().strip()
        os.kill(server.pid, signal.SIGKILL)
    assert len(cloud_id) == 4
    assert cgroups.pids(f"lc-{cloud_id}")
    removed = leftovers.clean(state_dir)
    state_dir.rmdir()
    kinds = ("processes", "mount ", "loop device", "network link", "network namespace", "nft table", "control group")
    for kind in kinds:
        assert any(kind in one for one in removed), (kind, removed)
    assert leftovers.clean(state_dir) == []
    assert not [path for path in Path("/run/netns").iterdir() if cloud_id in path.name]
    assert cgroups.pids(f"lc-{cloud_id}") == []
    assert leftovers.loops_below(state_dir) == []
    assert cloud_id not in Path("/proc/mounts").read_text()
