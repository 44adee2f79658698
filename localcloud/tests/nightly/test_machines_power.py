"""Guests that are stopped, started and rebooted, and what becomes of their disks meanwhile."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest

from localcloud.machines import leftovers
from localcloud.machines.spec import BootFault, Hardware
from localcloud.tests.guests import (
    CLIENT,
    CLOUD_INIT_DONE,
    SERVER,
    Guests,
    await_state,
    await_true,
    end,
    instance_id,
    opened,
    spec,
    traces,
)

SUBJECTS = [
    "localcloud/machines/hypervisor.py",
    "localcloud/machines/machine.py",
    "localcloud/machines/nspawn.py",
    "localcloud/machines/volumes.py",
    "localcloud/machines/layers.py",
]
COVERED_BY = "test_control_plane_power.py; a head node that restarts in test_changes.py, a reboot in test_scratch.py"


@pytest.fixture(scope="module")
def guests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guests]:
    with opened(tmp_path_factory.mktemp("wheels"), spec(SERVER), spec(CLIENT)) as guests:
        yield guests


def test_reboot_keeps_files_address_and_volumes(guests: Guests) -> None:
    one = spec(50)
    guests.boot(one)
    guests.hypervisor.attach_volume(one.instance_id, "vol-0999", 1, "/dev/sdf")
    guests.await_console(one.instance_id, CLOUD_INIT_DONE)
    guests.run(
        one.instance_id, "touch /root/kept; systemctl reboot", check=False
    )  # it may lose its bus as it says goodbye
    await_true(
        lambda: guests.hypervisor.console_output(one.instance_id).count(CLOUD_INIT_DONE) == 2, lambda: "no reboot"
    )
    after = guests.run(one.instance_id, "ls /root/kept; test -b /dev/sdf && echo disk; hostname; hostname -I")
    assert after.split() == ["/root/kept", "disk", "ip-10-0-1-50", "10.0.1.50"]
    end(guests, one.instance_id, hard=True)
    guests.hypervisor.delete_volume("vol-0999")


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


def test_a_disk_that_a_client_still_has_mounted_is_one_disk_with_its_next_attachment(guests: Guests) -> None:
    """Two loop devices of one file would be two file systems that destroy each other."""
    server, client = spec(55), instance_id(CLIENT)
    guests.boot(server)
    guests.await_console(server.instance_id, CLOUD_INIT_DONE)
    guests.hypervisor.attach_volume(server.instance_id, "vol-0997", 1, "/dev/sdg")
    guests.run(server.instance_id, "mkfs.ext4 -q /dev/sdg && mkdir /export && mount /dev/sdg /export")
    exported = "echo '/export 10.0.0.0/16(rw,no_root_squash)' >/etc/exports.d/test.exports; systemctl start nfs-server"
    guests.run(server.instance_id, exported)
    guests.run(client, "mkdir -p /shared && mount -t nfs4 10.0.1.55:/export /shared && echo from-client >/shared/file")
    guests.hypervisor.stop(server.instance_id)
    await_state(guests, server.instance_id, "stopped")
    guests.hypervisor.detach_volume(server.instance_id, "vol-0997")
    guests.hypervisor.attach_volume(instance_id(SERVER), "vol-0997", 1, "/dev/sdg")
    assert len(leftovers.loops_below(guests.state_dir)) == 1
    seen = guests.run(instance_id(SERVER), "mount /dev/sdg /mnt && cat /mnt/file && echo new >/mnt/file && umount /mnt")
    assert seen == "from-client\n"
    assert guests.run(client, "cat /shared/file; umount /shared") == "new\n"
    guests.hypervisor.detach_volume(instance_id(SERVER), "vol-0997")
    guests.hypervisor.terminate(server.instance_id)
    guests.hypervisor.delete_volume("vol-0997")
