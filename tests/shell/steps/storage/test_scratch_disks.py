"""Which disks /scratch uses, and how it is made, with stand-ins for the commands."""

from __future__ import annotations

import getpass
import os
from pathlib import Path

import pytest
from gpucluster_node.scratch import disks as scratch_disks
from gpucluster_node.scratch import place
from gpucluster_node.scratch.disks import Unusable

BLKID = 'for disk; do :; done; cat "{root}/labels/$(basename "$disk")" 2>/dev/null'
"""A file beside the disks contains the label of each disk's file system."""


class Instance:
    """A machine with disks by name, whose commands record their calls."""

    def __init__(self, root: Path) -> None:
        self.root, self.bin, self.calls_file = root, root / "bin", root / "calls"
        for folder in ("bin", "dev/disk/by-id", "labels", "image-nvme"):
            (root / folder).mkdir(parents=True)
        self.calls_file.touch()
        self.command("blockdev", "echo 3800000000000")
        self.command("blkid", BLKID.format(root=root))
        self.command("mkfs.ext4", f'for disk; do :; done; echo gpu-scratch >"{root}/labels/$(basename "$disk")"')
        self.command("mount", f'case $* in *-t\\ ext4*) touch "{root}/mounted" ;; esac')
        self.command(
            "mdadm",
            f'case $* in *--create*) mkdir -p "{root}/dev/md"; touch "{root}/dev/md/scratch" ;; *) exit 1 ;; esac',
        )
        for name in ("wipefs", "umount", "vgremove", "udevadm", "lsblk", "pvs"):
            self.command(name)
        self.command("systemctl", "exit 1")

    def command(self, name: str, body: str = "") -> None:
        path = self.bin / name
        path.write_text(f'#!/bin/bash\necho "{name} $*" >>"{self.calls_file}"\n{body}\n')
        path.chmod(0o755)

    def disk(
        self, number: int, model: str = "Amazon_EC2_NVMe_Instance_Storage", serial: str = "AWS1234567890ABCDE"
    ) -> Path:
        device = self.root / f"dev/nvme{number}n1"
        device.touch()
        name = f"nvme-{model}_{serial[:-1]}{number}"
        for alias in (name, f"{name}-ns-1", f"{name}_1"):
            (self.root / "dev/disk/by-id" / alias).symlink_to(device)
        return device

    def did(self, *names: str) -> list[str]:
        """Calls of these commands, devices by their last names."""
        calls = self.calls_file.read_text().replace(f"{self.root}/dev/", "").replace(f"{self.root}/", "").splitlines()
        return [call for call in calls if call.split()[0] in names]


CHANGES = ("mdadm", "mkfs.ext4", "mount", "umount", "wipefs", "vgremove")
MKFS = "mkfs.ext4 -q -F -L gpu-scratch -m 0 -i 65536 -E nodiscard,lazy_itable_init=1,lazy_journal_init=1"
MOUNT = "mount -t ext4 -o noatime,noinit_itable"


@pytest.fixture
def instance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Instance:
    made = Instance(tmp_path)
    monkeypatch.setenv("PATH", f"{made.bin}:/usr/bin:/bin")
    for name, path in {"BY_ID": "dev/disk/by-id", "ARRAY": "dev/md/scratch", "SINCE_BOOT": "run/scratch"}.items():
        monkeypatch.setattr(scratch_disks, name, tmp_path / path)
    for name, path in {"MOUNT": "scratch", "ON_ROOT": "var/scratch"}.items():
        monkeypatch.setattr(place, name, tmp_path / path)
    monkeypatch.setattr(scratch_disks, "TIMEOUT_S", 1)
    monkeypatch.setattr(scratch_disks.await_disks, "__defaults__", (0,))
    monkeypatch.setattr(scratch_disks.lead_to, "__defaults__", (tmp_path / "image-nvme",))
    monkeypatch.setattr(os.path, "ismount", lambda path: path == place.MOUNT and (tmp_path / "mounted").exists())
    return made


def test_one_disk_is_used_without_raid(instance: Instance) -> None:
    instance.disk(1)
    assert scratch_disks.prepare(3800) == instance.root / "scratch"
    assert instance.did(*CHANGES) == [
        "wipefs --all --quiet nvme1n1",
        f"{MKFS} nvme1n1",
        f"{MOUNT} nvme1n1 scratch",
        "mount --bind scratch image-nvme",
    ]


def test_several_disks_are_striped(instance: Instance) -> None:
    for number in (2, 1):
        instance.disk(number)
    scratch_disks.prepare(7600)
    create = "--run --level=0 --chunk=512 --homehost=any --name=scratch --raid-devices=2 nvme1n1 nvme2n1"
    assert instance.did("mdadm", "mkfs.ext4") == [
        "mdadm --assemble --run md/scratch nvme1n1 nvme2n1",
        f"mdadm --create md/scratch {create}",
        f"{MKFS} md/scratch",
    ]


def test_ebs_volumes_are_never_touched(instance: Instance) -> None:
    instance.disk(0, "Amazon_Elastic_Block_Store", "vol0123456789abcdef0")
    instance.disk(1)
    instance.disk(2, "Amazon_Elastic_Block_Store", "vol0123456789abcdef0")
    scratch_disks.prepare(3800)
    assert not [call for call in instance.did(*CHANGES) if "nvme0" in call or "nvme2" in call]


def test_an_existing_file_system_is_mounted_after_a_reboot(instance: Instance) -> None:
    instance.disk(1)
    scratch_disks.prepare(3800)
    (instance.root / "mounted").unlink()
    before = len(instance.did(*CHANGES))
    scratch_disks.prepare(3800)
    assert instance.did(*CHANGES)[before:][0] == f"{MOUNT} nvme1n1 scratch"


def test_an_array_is_assembled_after_a_reboot(instance: Instance) -> None:
    for number in (1, 2):
        instance.disk(number)
    (instance.root / "labels/scratch").write_text("gpu-scratch\n")
    instance.command("mdadm", f'mkdir -p "{instance.root}/dev/md"; touch "{instance.root}/dev/md/scratch"')
    scratch_disks.prepare(7600)
    assert instance.did("mdadm", "mkfs.ext4") == ["mdadm --assemble --run md/scratch nvme1n1 nvme2n1"]


def test_a_second_run_changes_nothing(instance: Instance) -> None:
    instance.disk(1)
    scratch_disks.prepare(3800)
    before = instance.calls_file.read_text()
    scratch_disks.prepare(3800)
    assert instance.calls_file.read_text() == before


def test_a_file_system_that_does_not_mount_is_replaced(instance: Instance) -> None:
    instance.disk(1)
    (instance.root / "labels/nvme1n1").write_text("gpu-scratch\n")
    instance.command(
        "mount", f'[ -e "{instance.root}/tried" ] || {{ touch "{instance.root}/tried"; echo damaged >&2; exit 32; }}'
    )
    scratch_disks.prepare(3800)
    assert instance.did("mkfs.ext4", "mount")[:3] == [
        f"{MOUNT} nvme1n1 scratch",
        f"{MKFS} nvme1n1",
        f"{MOUNT} nvme1n1 scratch",
    ]


def test_the_deep_learning_amis_volume_group_is_removed(instance: Instance) -> None:
    disks = [instance.disk(number) for number in (1, 2)]
    instance.command("systemctl", "case $1 in is-enabled) echo enabled ;; show) echo active ;; esac")
    instance.command("lsblk", f'[ -e "{instance.root}/unmounted" ] || echo /opt/dlami/nvme')
    instance.command("pvs", f"echo '  {disks[0]} vg.01'; echo '  {disks[1]} vg.01'; echo '  /dev/nvme0n1p1 other'")
    scratch_disks.prepare(7600)
    assert instance.did(*CHANGES, "systemctl")[1:8] == [
        "systemctl show --property=ActiveState --value dlami-nvme.service",
        "systemctl --quiet disable dlami-nvme.service",
        "mdadm --assemble --run md/scratch nvme1n1 nvme2n1",
        "umount /opt/dlami/nvme",
        "vgremove --force --force --yes vg.01",
        "wipefs --all --quiet nvme1n1",
        "wipefs --all --quiet nvme2n1",
    ]


REFUSALS = {
    "another mount of the image": ("lsblk", "echo; echo /data", "mounted NVMe disks at /data: .* `scratch: off`"),
    "a group that lies on EBS too": (
        "pvs",
        "echo '{disk} vg'; echo '/dev/nvme0n1p2 vg'",
        "vg is on /dev/nvme0n1p2 as well",
    ),
    "a disk that cannot be written": ("mkfs.ext4", "echo 'Input/output error' >&2; exit 1", "Input/output error"),
    "fewer disks than the type has": ("blockdev", "echo 1900000000000", "with 1900 GB were found, .* has 3800 GB"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_unusable_disks_are_reported_and_no_data_is_lost(instance: Instance, name: str) -> None:
    command, body, says = REFUSALS[name]
    disk = instance.disk(1)
    instance.command(command, body.replace("{disk}", str(disk)))
    with pytest.raises(Unusable, match=says):
        scratch_disks.prepare(3800)
    assert not instance.did("mount", "vgremove")


def test_disks_that_never_appear_end_the_boot(instance: Instance) -> None:
    with pytest.raises(
        Unusable, match="0 NVMe instance store disks with 0 GB were found, the instance type has 125 GB"
    ):
        scratch_disks.prepare(125)


def test_a_machine_without_disks_uses_its_root_volume(instance: Instance) -> None:
    assert scratch_disks.prepare(0) == instance.root / "var/scratch"
    assert instance.calls_file.read_text() == ""


def test_jobs_are_not_sent_to_disks_that_failed(
    instance: Instance, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path_file = tmp_path / "etc/scratch"
    monkeypatch.setattr(place.write_path, "__defaults__", (path_file,))
    monkeypatch.setattr("sys.argv", ["scratch_disks", "3800", getpass.getuser()])
    with pytest.raises(SystemExit, match="0 NVMe instance store disks"):
        scratch_disks.main()
    assert path_file.read_text() == f"{tmp_path}/var/scratch\n" and (tmp_path / "var/scratch/cache").is_dir()


def test_the_scratch_folder_is_published_and_prepared_once_per_boot(
    instance: Instance, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path_file = tmp_path / "etc/scratch"
    monkeypatch.setattr(place.write_path, "__defaults__", (path_file,))
    monkeypatch.setattr("sys.argv", ["scratch_disks", "0", getpass.getuser()])
    (tmp_path / "var/scratch/jobs/7").mkdir(parents=True)
    scratch_disks.main()
    assert path_file.read_text() == f"{tmp_path}/var/scratch\n"
    assert place.place(path_file) == tmp_path / "var/scratch"
    assert not (tmp_path / "var/scratch/jobs/7").exists()
    (tmp_path / "var/scratch/jobs/8").mkdir()
    scratch_disks.main()  # with the bundle's next version, while a job runs
    assert (tmp_path / "var/scratch/jobs/8").exists()
