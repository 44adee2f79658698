"""The hypervisor without the control plane: two instances really boot, and a stub answers for the control plane."""

from __future__ import annotations

import dataclasses
import functools
import os
import secrets
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import paramiko
import pytest

from localcloud.machines import cgroups, image, leftovers
from localcloud.machines.spec import BootFault
from localcloud.tests.guests import (
    CLIENT,
    CLOUD_INIT_DONE,
    SERVER,
    VPC,
    Guests,
    await_true,
    end,
    instance_id,
    opened,
    spec,
    traces,
)

USER_DATA = b"""#!/bin/bash
set -x
hostname
getent hosts head.zone.internal
getent hosts ip-10-0-1-11
curl -s -o /dev/null -w 'without-token=%{http_code}\\n' http://169.254.169.254/latest/meta-data/
python3 -c 'import boto3; print(boto3.Session().get_credentials().method)'
apt-get -q update >/dev/null && echo packages-reachable
ls -l /opt/wheels | head -2
nvidia-smi -L
echo user-data-done
"""


@pytest.fixture(scope="module")
def guests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guests]:
    with opened(tmp_path_factory.mktemp("wheels"), spec(SERVER, user_data=USER_DATA), spec(CLIENT)) as guests:
        for host in (SERVER, CLIENT):
            guests.await_console(instance_id(host), CLOUD_INIT_DONE)
        yield guests


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


def test_a_guest_has_its_own_kernel_log_and_a_machine_may_lose_parts(guests: Guests) -> None:
    server, client = instance_id(SERVER), instance_id(CLIENT)
    lines = [f"NVRM: Xid (PCI:0000:00:1{digit}): 79, GPU has fallen off the bus." for digit in "bcd"]
    guests.hypervisor.log_kernel(server, "\n".join(lines))
    asked = "journalctl --dmesg --boot --output=cat --no-pager --grep='NVRM: Xid'"
    await_true(lambda: guests.run(server, asked, check=False).splitlines() == lines, lambda: guests.run(server, asked))
    assert "Xid" not in guests.run(client, asked, check=False)
    assert "Xid (PCI:0000:00:1b)" not in subprocess.run(["dmesg"], capture_output=True, text=True, check=False).stdout
    whole = spec(SERVER).hardware
    guests.hypervisor.refit(server, dataclasses.replace(whole, gpus=3, efa_interfaces=0))
    assert guests.run(server, "nvidia-smi -L").count("GPU ") == 3
    assert "domain:" not in guests.run(server, "fi_info -p efa", check=False)
    guests.hypervisor.refit(server, whole)
    assert guests.run(server, "nvidia-smi -L; fi_info -p efa | grep -c domain:").count("GPU ") == 4


ASK_THE_TIME = """
import socket, struct, time
asking = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
asking.settimeout(5)
asking.sendto(bytes([0x23]) + bytes(47), ("169.254.169.123", 123))
print(round(struct.unpack("!I", asking.recv(512)[40:44])[0] - 2208988800 - time.time()))
"""


def test_the_time_service_answers_guests(guests: Guests) -> None:
    for ahead_s in (0, 600):
        guests.metadata.ahead_s = ahead_s
        assert abs(int(guests.run(instance_id(CLIENT), f"python3 -c '{ASK_THE_TIME}'")) + ahead_s) <= 1
    guests.metadata.ahead_s = 0.0


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
        listener.settimeout(60)
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
    guests.hypervisor.grow_volume("vol-0123", 2)
    assert guests.run(server, f"blockdev --getsize64 {link}") == f"{2 << 30}\n"
    guests.hypervisor.detach_volume(server, "vol-0123")
    guests.hypervisor.delete_volume("vol-0123")
    assert leftovers.loops_below(guests.state_dir) == []


def test_a_volume_from_a_snapshot_has_what_was_written_before_it(guests: Guests) -> None:
    server, client = instance_id(SERVER), instance_id(CLIENT)
    guests.hypervisor.attach_volume(client, "vol-0124", 1, "/dev/sdf")
    guests.run(client, "mkfs.ext4 -q /dev/sdf && mount /dev/sdf /mnt && echo before >/mnt/file")
    guests.hypervisor.snapshot_volume("vol-0124", "snap-0124")
    guests.run(client, "echo after >/mnt/file && umount /mnt")
    guests.hypervisor.restore_volume("snap-0124", "vol-0125", 2)
    guests.hypervisor.delete_snapshot("snap-0124")
    guests.hypervisor.attach_volume(server, "vol-0125", 2, "/dev/sdf")
    assert guests.run(server, "mount /dev/sdf /mnt && cat /mnt/file && umount /mnt") == "before\n"
    assert guests.run(server, "blockdev --getsize64 /dev/sdf") == f"{2 << 30}\n"
    for volume, guest in (("vol-0124", client), ("vol-0125", server)):
        guests.hypervisor.detach_volume(guest, volume)
        guests.hypervisor.delete_volume(volume)
    assert not list((guests.state_dir / "volumes").iterdir())


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
    by_user = guests.run(client, "su ubuntu -c '/usr/sbin/mount.nfs4 head.zone.internal:/export /mnt'", check=False)
    assert "only root can mount" in by_user
    denied = guests.run(client, "mount -t nfs4 head.zone.internal:/etc /mnt", check=False)
    assert "access denied by server" in denied  # and /shared stays mounted: the end of both guests must free the disk


def ends_and_leaves_nothing(guests: Guests, instance: str, *, hard: bool) -> None:
    guests.hypervisor.attach_volume(instance, "vol-0789", 1, "/dev/sdf")
    assert traces(guests, instance)
    end(guests, instance, hard=hard)
    assert traces(guests, instance) == []
    assert leftovers.loops_below(guests.state_dir / "volumes" / "vol-0789") == []
    guests.hypervisor.delete_volume("vol-0789")


def test_subnet_without_internet_reaches_neighbours_and_metadata_only(guests: Guests) -> None:
    """And a shutdown leaves nothing of the instance."""
    closed = spec(20, internet=False)
    guests.boot(closed)
    guests.await_console(closed.instance_id, "OpenBSD Secure Shell server")
    ping = guests.run(closed.instance_id, "ping -c1 -W5 10.0.1.10 >/dev/null && echo neighbour")
    outside = guests.run(closed.instance_id, f"curl -s -m 3 -o /dev/null {image.inspect_host().mirror}/; echo $?")
    assert (ping, outside) == ("neighbour\n", "28\n")
    ends_and_leaves_nothing(guests, closed.instance_id, hard=False)


def test_two_vpcs_may_use_the_same_addresses(guests: Guests) -> None:
    """And a hard end leaves nothing of the instance."""
    twin = dataclasses.replace(spec(SERVER), instance_id=instance_id(60), vpc_id="vpc-0ffffffffffffffff")
    guests.boot(twin)
    guests.await_console(twin.instance_id, "Reached target \x1b[0;1;39mcloud-init.target")
    token = "$(curl -s -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 60' http://169.254.169.254/latest/api/token)"
    identity = "http://169.254.169.254/latest/meta-data/instance-id"
    ask = f'curl -s -H "X-aws-ec2-metadata-token: {token}" {identity}; echo; hostname -I'
    assert guests.run(twin.instance_id, ask).split() == [twin.instance_id, "10.0.1.10"]
    assert guests.run(instance_id(SERVER), ask).split() == [instance_id(SERVER), "10.0.1.10"]
    ends_and_leaves_nothing(guests, twin.instance_id, hard=True)
    assert not list(Path("/run/netns").glob(f"lc-{guests.cloud_id}-{twin.vpc_id}"))


def test_a_slow_boot_is_running_without_output(guests: Guests) -> None:
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


def test_no_packet_passes_a_cut_network_until_it_is_mended(guests: Guests) -> None:
    """The card keeps its carrier, and so its address."""
    server, client = instance_id(SERVER), instance_id(CLIENT)
    for each in (server, client):
        guests.await_console(each, CLOUD_INIT_DONE)
    reaches = "ping -c 1 -W 1 10.0.1.10 >/dev/null && echo reached || echo lost"
    assert guests.run(client, reaches) == "reached\n"
    guests.hypervisor.cut_network(server)
    assert guests.run(client, reaches) == "lost\n"
    assert guests.run(server, "ping -c 1 -W 1 10.0.1.11 >/dev/null || hostname -I").split() == ["10.0.1.10"]
    guests.hypervisor.mend_network(server)
    assert guests.run(client, f"for i in 1 2 3 4 5; do sleep 1; {reaches}; done").endswith("reached\n")


def test_the_metadata_service_and_the_resolver_can_be_late(guests: Guests) -> None:
    client = instance_id(CLIENT)
    guests.await_console(client, CLOUD_INIT_DONE)
    token = "curl -s -m 2 -o /dev/null -w '%{http_code}' -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 60'"
    ask = f"{token} http://169.254.169.254/latest/api/token || :"
    assert guests.run(client, ask) == "200"
    guests.metadata.no_metadata = {client}
    assert guests.run(client, ask) == "000"
    assert guests.run(instance_id(SERVER), ask) == "200", "other instances are answered"
    guests.metadata.no_metadata = set()
    assert guests.run(client, ask) == "200"
    guests.metadata.slow_dns_s = 2.0
    timed = "began=$(date +%s%N); getent ahostsv4 head.zone.internal; echo $((($(date +%s%N) - began) / 1000000))"
    *_, milliseconds = guests.run(client, timed).split()
    guests.metadata.slow_dns_s = 0.0
    assert int(milliseconds) >= 2000


def test_broken_command_fails_by_name_and_by_path(guests: Guests) -> None:
    fault = BootFault(broken_commands={"munged": "no key, says the test"})
    broken = spec(41, user_data=b"#!/bin/sh\nmunged\n/usr/sbin/munged --version\necho exit=$? | tee /dev/console\n")
    guests.hypervisor.start(broken, fault)
    guests.await_console(broken.instance_id, "exit=1")
    # cloud-init's own tee writes the program's lines to the console, maybe after the line above.
    console = functools.partial(guests.hypervisor.console_output, broken.instance_id)
    await_true(lambda: console().count("no key, says the test") == 2, console, 30)
    end(guests, broken.instance_id)


KILLED_SERVER = """
import sys, time
sys.path[:0] = {paths!r}
from pathlib import Path
from localcloud.tests import guests as t
guests = t.Guests(Path({state_dir!r}), Path({wheels!r}))
guests.boot(t.spec(10))
guests.hypervisor.attach_volume(t.instance_id(10), "vol-1", 1, "/dev/sdf")
print(guests.cloud_id, flush=True)
time.sleep(600)
"""


def test_leftovers_of_a_killed_server_can_be_removed(guests: Guests, tmp_path: Path) -> None:
    state_dir = Path("/var/lib/localcloud") / f"test-killed-{secrets.token_hex(2)}"
    paths = [str(Path(__file__).parent), str(Path(__file__).parents[3])]
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
