"""EBS volumes of `storage`: what the head node does with content, as the real blkid sees it, and how it shares them."""

from __future__ import annotations

import itertools
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from gpucluster_node.head import disks
from test_storage_steps import Node, efs, fsx, head, last_error, node  # noqa: F401 the fixtures

SBIN = f"{Path('/usr/sbin')}:{Path('/sbin')}"
ID = "vol-0123456789abcdef0"


def ext4(image: Path) -> None:
    subprocess.run(["mkfs.ext4", "-q", image], check=True)


def swap(image: Path) -> None:
    subprocess.run(["mkswap", image], check=True, capture_output=True)


def partitioned(image: Path) -> None:
    """A master boot record with one Linux partition."""
    record = bytearray(512)
    record[446:462] = bytes([0, 0, 2, 0, 0x83, 0, 2, 0]) + (2048).to_bytes(4, "little") + (4096).to_bytes(4, "little")
    record[510:512] = b"\x55\xaa"
    with image.open("r+b") as file:
        file.write(record)


def empty(image: Path) -> None:
    pass


@pytest.fixture
def image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", SBIN, prepend=":")
    if not shutil.which("mkfs.ext4") or not shutil.which("blkid"):
        pytest.skip("e2fsprogs and util-linux are not installed")
    found = tmp_path / "image"
    with found.open("wb") as file:
        file.truncate(64 << 20)
    return found


@pytest.mark.parametrize(
    ("fill", "blank", "does"),
    [(empty, True, "format"), (ext4, True, "mount"), (ext4, False, "mount")],
    ids=["new", "new, at the second boot", "of others"],
)
def test_only_a_new_and_empty_volume_is_formatted(
    image: Path, fill: Callable[[Path], None], blank: bool, does: str
) -> None:
    fill(image)
    assert disks.plan(disks.blkid(image), ID, blank=blank) == does


@pytest.mark.parametrize("blank", [True, False])
@pytest.mark.parametrize(
    ("fill", "said"),
    [(swap, "has swap: it must have ext2, ext3, ext4"), (partitioned, r"has a partition table \(dos\)")],
    ids=["swap", "partitions"],
)
def test_other_content_is_refused_and_stays(image: Path, fill: Callable[[Path], None], said: str, blank: bool) -> None:
    fill(image)
    before = image.read_bytes()
    with pytest.raises(disks.Unusable, match=f"{ID} {said}"):
        disks.plan(disks.blkid(image), ID, blank=blank)
    assert image.read_bytes() == before


def test_an_empty_volume_of_others_is_not_formatted(image: Path) -> None:
    with pytest.raises(disks.Unusable, match="has no file system: make one"):
        disks.plan(disks.blkid(image), ID, blank=False)


@pytest.mark.parametrize(
    ("kind", "command"),
    [
        ("ext4", ["resize2fs", "/dev/x"]),
        ("xfs", ["xfs_growfs", "/data"]),
        ("btrfs", ["btrfs", "filesystem", "resize", "max", "/data"]),
    ],
)
def test_each_file_system_grows_by_its_own_command(kind: str, command: list[str]) -> None:
    assert disks.grow(kind, Path("/dev/x"), "/data") == command


ENTRY = {"mount": "/data", "type": "ebs", "for_everybody": []}


@pytest.mark.parametrize("program", ["false", "xfs_growfs_that_no_image_has"])
def test_a_file_system_that_cannot_grow_stays_mounted(program: str, caplog: pytest.LogCaptureFixture) -> None:
    disks.enlarge([program, "/data"], "/data")
    assert "/data does not grow" in caplog.text and program in caplog.text


def test_the_head_node_mounts_a_volume_and_shares_it(head: Node) -> None:  # noqa: F811
    _answers(head)
    head.has(ENTRY)
    for _ in range(2):
        done = head.run("storage_mounts", header=VPC)
        assert done.returncode == 0, done.stdout + done.stderr
    assert f"{head.root}/data 10.0.0.0/16(rw,sync,no_root_squash,no_subtree_check,mountpoint)\n" == _exports(head)
    unit = (head.root / f"etc/systemd/system/gpucluster-disk-{_name(head)}.service").read_text()
    assert f"bin/mount-disk {head.root}/data\n" in unit and "Timeout" not in unit
    assert head.asked("exportfs") == ["-ra", "-ra"]
    assert not head.asked("mount"), "the node program mounts it"


def test_a_volume_that_storage_no_longer_has_is_closed_and_detached(head: Node) -> None:  # noqa: F811
    _answers(head)
    head.has(ENTRY)
    head.run("storage_mounts", header=VPC).check_returncode()
    head.has()
    head.run("storage_mounts", header=VPC).check_returncode()
    order = [call.split()[0] for call in head.machine.calls() if call.split()[0] in ("exportfs", "umount", "detach")]
    assert order == ["exportfs", "exportfs", "umount", "detach"], "NFS holds it until it is no longer exported"
    assert not list((head.root / "etc/exports.d").iterdir())


def test_another_volume_takes_the_place_of_the_first(head: Node) -> None:  # noqa: F811
    _answers(head)
    head.has(ENTRY)
    head.run("storage_mounts", header=VPC).check_returncode()
    (head.root / "another").touch()
    head.run("storage_mounts", header=VPC).check_returncode()
    order = [call.split()[0] for call in head.machine.calls() if call.split()[0] in ("exportfs", "umount", "detach")]
    assert order == ["exportfs", "exportfs", "umount", "detach", "exportfs"]
    assert _exports(head).startswith(f"{head.root}/data ")


OPENZFS = {
    "mount": "/data",
    "type": "fsx-openzfs",
    "dns_name": "fs-2.example",
    "mount_name": "/vol",
    "for_everybody": [],
}
OF_KINDS = {"ebs": ENTRY, "efs": efs("/data"), "fsx-lustre": fsx("/data"), "fsx-openzfs": OPENZFS}


@pytest.mark.parametrize(("before", "after"), list(itertools.permutations(OF_KINDS, 2)))
def test_nothing_is_left_of_another_kind(head: Node, before: str, after: str) -> None:  # noqa: F811
    _answers(head, f'touch "$ROOT/mounted/{_place(head)}"')
    for kind in (before, after):
        head.has(OF_KINDS[kind])
        head.run("storage_mounts", header=VPC).check_returncode()
    assert head.asked("umount") == ["/data"]
    assert len(head.fstab()) == (after != "ebs"), head.fstab()
    assert (head.root / f"etc/exports.d/gpucluster-{_name(head)}.exports").exists() == (after == "ebs")
    assert (head.root / f"etc/systemd/system/gpucluster-disk-{_name(head)}.service").exists() == (after == "ebs")
    tunnels = list((head.root / "etc/gpucluster").glob("tunnels/*.conf"))
    assert len(tunnels) == (after == "efs"), tunnels
    if before == "ebs":
        assert f"detach {head.root}/data" in head.machine.calls()


def _place(head: Node) -> str:  # noqa: F811
    """The file that stands for what is mounted at /data."""
    return f"{head.root}/data".replace("/", "_")


def test_a_volume_is_another_one_if_its_note_says_so(tmp_path: Path) -> None:
    note = tmp_path / "data"
    assert not disks.is_another(note, ID)
    note.write_text(ID)
    assert (disks.is_another(note, ID), disks.is_another(note, "vol-1")) == (False, True)


def test_a_volume_that_cannot_be_mounted_ends_the_boot_with_the_reason(head: Node) -> None:  # noqa: F811
    _answers(head, "echo /data: i-1 has vol-1, and this machine must not take the volume >&2; exit 3")
    head.has(ENTRY)
    assert "i-1 has vol-1" in last_error(head.run("storage_mounts", header=VPC))
    assert not (head.root / "etc/exports.d").exists()


def test_compute_nodes_mount_it_from_the_head_node(node: Node) -> None:  # noqa: F811
    node.has(ENTRY)
    node.run("storage_mounts").check_returncode()
    (call,) = node.asked("mount")
    assert call == "-t nfs4 -o nfsvers=4.2,port=296,noatime,hard head.c.internal:/data /data"


VPC = "imds_interface() { echo 10.0.0.0/16; }; starts_again() { :; }; DATA=/home/gpucluster"


def _answers(head: Node, mount: str = 'touch "$ROOT/mounted/$(tr / _ <<<$3)"') -> None:  # noqa: F811
    """The node program's answers."""
    head.machine.command("exportfs")
    program = head.root / "opt/gpucluster/bin/node-program"
    text = program.read_text().replace("#!/bin/bash\n", (
        f'#!/bin/bash\nROOT={head.root}\nif [ "$1 $2" = "head.disks mount" ]; then {mount}; exit; fi\n'
        'if [ "$1 $2" = "head.disks changed" ]; then [ -e "$ROOT/another" ] && rm "$ROOT/another"; exit; fi\n'
        'if [ "$1 $2" = "head.disks detach" ]; then echo "detach $3" >>"$ROOT/calls"; exit; fi\n'
    ))  # fmt: skip
    program.write_text(text)


def _name(head: Node) -> str:  # noqa: F811
    return f"{head.root}/data".strip("/").replace("/", "-")


def _exports(head: Node) -> str:  # noqa: F811
    return (head.root / f"etc/exports.d/gpucluster-{_name(head)}.exports").read_text()
