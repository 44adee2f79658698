"""How guests are started and distinguished: argv, control groups, roots, exports, leftovers."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path, PurePosixPath

import pytest

from localcloud.machines import (
    agent,
    cgroups,
    leftovers,
    nspawn,
    ownership,
    rootfs,
    shares,
    volumes,
    watches,
)
from localcloud.machines.nspawn import Bind

HYBRID = """\
cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0
cgroup /sys/fs/cgroup/systemd cgroup rw,relatime,name=systemd 0 0
cgroup2 /sys/fs/cgroup/unified cgroup2 rw,relatime 0 0
"""
UNIFIED = "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n"
LEGACY = "cgroup /sys/fs/cgroup/systemd cgroup rw,name=systemd 0 0\n"


def test_argv_starts_init_in_its_own_network() -> None:
    binds = [Bind(Path("/w"), "/opt/wheels", read_only=True), Bind(Path("/dev/null"), "/dev/nvidia0")]
    argv = nspawn.argv("i-1", Path("/m/root"), "lc-ab12-i-1", binds)
    assert argv[:3] == ["nsenter", "--net=/run/netns/lc-ab12-i-1", "systemd-nspawn"]
    assert argv[-3:] == ["--bind-ro=/w:/opt/wheels", "--bind=/dev/null:/dev/nvidia0", "--boot"]
    assert {"--register=no", "--keep-unit", "--kill-signal=SIGRTMIN+3"} <= set(argv)


def test_argv_of_a_machine_that_never_boots_has_no_init() -> None:
    argv = nspawn.argv("i-1", Path("/m/root"), "n", [], boots=False)
    assert "--boot" not in argv and argv[-2:] == ["sleep", "infinity"]


@pytest.mark.parametrize(
    ("mounts", "mode", "paths"),
    [
        (HYBRID, "hybrid", ["/sys/fs/cgroup/unified", "/sys/fs/cgroup/systemd"]),
        (UNIFIED, "unified", ["/sys/fs/cgroup"]),
        (LEGACY, "legacy", ["/sys/fs/cgroup/systemd"]),
        ("", "none", []),
    ],
)
def test_control_groups_are_found_on_every_kind_of_host(mounts: str, mode: str, paths: list[str]) -> None:
    assert [str(path) for path in cgroups.hierarchies(mounts)] == paths
    assert cgroups.mode(mounts) == mode


def test_broken_command_lies_first_on_path_and_over_the_real_one(tmp_path: Path) -> None:
    (tmp_path / "usr/sbin").mkdir(parents=True)
    (tmp_path / "usr/sbin/munged").touch()
    assert rootfs.command_paths("munged", [tmp_path]) == ["usr/local/sbin/munged", "usr/sbin/munged"]
    assert rootfs.command_paths("absent", [tmp_path]) == ["usr/local/sbin/absent"]


@pytest.mark.parametrize(("gpus", "names"), [(0, []), (2, ["nvidia0", "nvidia1", "nvidiactl"])])
def test_gpu_devices_follow_the_hardware(gpus: int, names: list[str]) -> None:
    assert rootfs.gpu_devices(gpus) == names


def test_volume_has_the_names_that_ec2_gives_it() -> None:
    attachment = volumes.Attachment("i-1", "vol-0ab", "/dev/sdf", "nvme1n1", Path("/dev/loop0"))
    assert volumes.links(attachment) == {
        "disk/by-id/nvme-Amazon_Elastic_Block_Store_vol0ab": "../../nvme1n1",
        "sdf": "nvme1n1",
    }


def test_an_instances_own_disks_have_the_names_that_ec2_gives_them(tmp_path: Path) -> None:
    loops = iter(("/dev/loop7", "/dev/loop8", "/dev/loop9"))
    cloud = volumes.Volumes(tmp_path)
    cloud._loop = lambda name, size: (tmp_path / name).write_text(str(size)) and Path(next(loops))  # type: ignore[method-assign]
    cloud.furnish("i-1", (3800, 3800))
    cloud.furnish("i-1", (3800, 3800))  # another boot
    first, second = cloud._attached.values()
    (name,) = volumes.links(first)
    assert re.fullmatch(r"disk/by-id/nvme-Amazon_EC2_NVMe_Instance_Storage_AWS[0-9A-F]{17}", name)
    assert (first.disk, second.disk) == ("nvme11n1", "nvme12n1")
    assert (tmp_path / first.volume_id).read_text() == "3800" + "0" * 9


ETAB = "/home\t10.0.0.0/16(rw,sync)\n/home/public\t*(ro)\nnoise\n"


@pytest.mark.parametrize(
    ("path", "client", "found"),
    [
        ("/home", "10.0.1.2", "/home"),
        ("/home/user", "10.0.1.2", "/home"),
        ("/home/public", "10.0.1.2", "/home/public"),
        ("/home", "192.0.2.1", None),
        ("/etc", "10.0.1.2", None),
        ("/homeless", "10.0.1.2", None),
    ],
)
def test_export_is_found_as_nfs_finds_it(path: str, client: str, found: str | None) -> None:
    export = shares.find_export(shares.parse_etab(ETAB), path, client)
    assert (export and export.path) == (found and PurePosixPath(found))


def test_an_agent_understands_a_mount() -> None:
    asked = {"op": "mount", "server": "10.0.1.2", "path": "/home", "target": "/home", "options": ["ro"]}
    assert shares.MountRequest.parse(asked) == shares.MountRequest("nfs", "10.0.1.2", "/home", "/home", ("ro",))


def test_an_agent_answers_requests_that_it_does_not_understand(tmp_path: Path) -> None:
    asked = agent.Agent(tmp_path, lambda request, peer: {"op": request["op"]})
    try:
        assert _ask(tmp_path, b'{"op": "x"}') == {"ok": True, "op": "x"}
        for line in (b"{", b"[]", b'{"or": "x"}'):
            assert str(_ask(tmp_path, line)["error"]).startswith("request not understood: ")
    finally:
        asked.close()


def _ask(folder: Path, line: bytes) -> dict[str, object]:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(folder / agent.SOCKET_NAME))
        connection.sendall(line + b"\n")
        answer: dict[str, object] = json.loads(connection.makefile().readline())
        return answer


def test_mounts_are_removed_deepest_first() -> None:
    mountinfo = (
        "1 0 8:1 / / rw - ext4 x rw\n"
        "2 1 0:1 / /state/a rw - overlay x rw\n"
        "3 2 0:2 / /state/a/b\\040c rw - tmpfs x rw\n"
        "4 1 0:3 / /stately rw - tmpfs x rw\n"
    )
    assert leftovers.mounts_below(Path("/state"), mountinfo) == ["/state/a/b c", "/state/a"]


def test_owner_of_an_empty_folder_is_nobody(tmp_path: Path) -> None:
    assert ownership.owner(tmp_path) is None
    (tmp_path / "hypervisor.json").write_text('{"cloud_id": "ab12"}')
    assert ownership.owner(tmp_path) == "ab12"


@pytest.mark.parametrize(("before", "after"), [("128", "8192"), ("65536", "65536")])
def test_the_limit_on_inotify_instances_is_only_raised(tmp_path: Path, before: str, after: str) -> None:
    limit = tmp_path / "max_user_instances"
    limit.write_text(f"{before}\n")
    watches.allow_many(limit)
    assert limit.read_text() == f"{after}\n"
