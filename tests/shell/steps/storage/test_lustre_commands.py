"""The local image's stand-ins for Lustre's commands, with a stand-in for the host's socket."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from localcloud.testing.recorded import record

GUEST = Path(__file__).resolve().parents[4] / "localcloud" / "machines" / "guest" / "usr"
REFUSED = {"error": "/nosuchname is not the file system's name"}


class Host:
    """The host: records requests and returns the test's answers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked: list[dict[str, Any]] = []
        self.answers: list[dict[str, Any]] = []
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(folder / "host.sock"))
        self._listener.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                self.asked.append(json.loads(connection.makefile().readline()))
                answer = self.answers.pop(0) if self.answers else {"ok": True, "flags": 0, "under_way": "NOOP"}
                connection.sendall(json.dumps(answer).encode() + b"\n")

    def run(self, command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        path = next(GUEST / folder / command for folder in ("bin", "sbin") if (GUEST / folder / command).exists())
        return subprocess.run(
            [path, *arguments], env=self.environment(), capture_output=True, text=True, timeout=20, check=False
        )

    def environment(self) -> dict[str, str]:
        names = {"MODULES": "modules", "LUSTRE_MOUNTS": "mounts", "LUSTRE_PARAMETERS": "parameters", "LNET": "lnet"}
        ours = {f"LOCALCLOUD_{key}": str(self.folder / name) for key, name in names.items()}
        return {**os.environ, **ours, "LOCALCLOUD_RUN": str(self.folder), "PATH": f"{GUEST}/sbin:{os.environ['PATH']}"}

    def close(self) -> None:
        self._listener.close()


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    made = Host(tmp_path)
    yield made
    made.close()


def test_a_mount_asks_for_the_file_system_and_notes_it_for_lfs(host: Host) -> None:
    (host.folder / "fsx").mkdir()
    target = str(host.folder / "fsx")
    host.answers = [{"ok": True, "system": "fs-1"}]
    done = host.run("mount.lustre", "127.0.0.1@tcp:/abcd/below", target, "-o", "rw,noatime,flock,_netdev")
    assert done.returncode == 0, done.stderr
    (asked,) = host.asked
    assert (asked["kind"], asked["server"], asked["path"]) == ("lustre", "127.0.0.1", "/abcd/below")
    noted = json.loads((host.folder / "mounts").read_text())
    assert noted == {target: {"system": "fs-1", "source": "127.0.0.1@tcp:/abcd/below", "below": "below"}}
    assert (host.folder / "modules" / "lustre").exists()


@pytest.mark.parametrize(
    ("source", "options", "answer", "status", "text"),
    [
        ("127.0.0.1@tcp:/nosuchname", "flock", REFUSED, 2, "Is the filesystem name correct?"),
        ("127.0.0.1@tcp:/abcd", "flock", {"error": "connection timed out"}, 5, "Is the MGS running?"),
        (
            "127.0.0.1@tcp:/abcd",
            "flok",
            None,
            22,
            "Is 'abcd' the correct filesystem name?\nAre the mount options correct?",
        ),
        ("127.0.0.1:/abcd", "flock", None, 22, "Are the mount options correct?"),
        ("no such host@tcp:/abcd", "flock", None, 22, "Can't parse NID"),
    ],
)
def test_a_failed_mount_prints_lustres_messages(
    host: Host, source: str, options: str, answer: dict[str, Any] | None, status: int, text: str
) -> None:
    host.answers = [answer] if answer else []
    done = host.run("mount.lustre", source, str(host.folder), "-o", options)
    assert (done.returncode, len(host.asked)) == (status, 1 if answer else 0)
    assert text in done.stderr
    assert not (host.folder / "mounts").exists()


def test_an_unknown_name_prints_the_recorded_message(host: Host) -> None:
    recorded, _, _ = record("lustre/mount-errors.txt").partition("\n\n")
    host.answers = [REFUSED]
    said = host.run("mount.lustre", "127.0.0.1@tcp:/ost1", str(host.folder)).stderr.split("\n", 1)[1]
    words = recorded.replace("lustre-ost1/ost1", "127.0.0.1@tcp:/ost1").replace("/mnt/lustre-ost1", str(host.folder))
    assert said == f"{words}\n"


def test_lfs_shows_a_files_state_and_passes_requests_on(host: Host) -> None:
    (host.folder / "file").touch()
    path, place = str(host.folder / "file"), host.folder.resolve()
    while not place.is_mount():
        place = place.parent
    (host.folder / "mounts").write_text(json.dumps({str(place): {"system": "fs-1", "source": "s", "below": "x"}}))
    for flags, words in ((0, ""), (9, " exists archived, archive_id:1"), (11, " exists dirty archived, archive_id:1")):
        host.answers = [{"ok": True, "flags": flags}]
        assert host.run("lfs", "hsm_state", path).stdout == f"{path}: (0x{flags:08x}){words}\n"
    host.answers = [{"ok": True, "under_way": "RESTORE"}]
    assert host.run("lfs", "hsm_action", path).stdout == f"{path}: RESTORE running (0 bytes moved)\n"
    assert host.run("lfs", "hsm_action", path).stdout == f"{path}: NOOP\n"
    host.asked.clear()
    assert host.run("lfs", "hsm_archive", "--archive", "1", path).returncode == 0
    inside = f"x/{Path(path).resolve().relative_to(place)}"
    assert host.asked == [{"op": "lustre", "action": "archive", "system": "fs-1", "path": inside}]
    host.answers = [{"error": "Operation not permitted"}]
    refused = host.run("lfs", "hsm_release", path)
    assert (refused.returncode, refused.stderr) == (
        1,
        f"Cannot send HSM request (use of {path}): Operation not permitted\n",
    )


def test_lfs_recognizes_paths_outside_lustre(host: Host) -> None:
    (host.folder / "file").touch()
    for verb, text in (("hsm_state", "can't get hsm state for"), ("getstripe", "localcloud: lfs getstripe:")):
        done = host.run("lfs", verb, str(host.folder / "file"))
        assert done.returncode and text in done.stderr and "Inappropriate ioctl" in done.stderr
    assert "No such file" in host.run("lfs", "hsm_state", str(host.folder / "none")).stderr
    assert host.run("lfs", "--version").stdout.startswith("lfs 2.15")


def test_modules_are_there_once_they_are_loaded(host: Host) -> None:
    assert host.run("lctl", "list_nids").returncode != 0
    assert host.run("modprobe", "-n", "lustre").returncode == 0
    assert host.run("lctl", "list_nids").returncode != 0, "only asked"
    assert host.run("modprobe", "lustre").returncode == 0
    assert host.run("lctl", "list_nids").returncode == 0
    assert host.run("lustre_rmmod").returncode == 0
    assert host.run("lctl", "list_nids").returncode != 0
    done = host.run("modprobe", "nosuchmodule")
    assert done.returncode == 1 and "Module nosuchmodule not found" in done.stderr


def test_lctl_keeps_parameters(host: Host) -> None:
    assert host.run("lctl", "set_param", "osc.*.max_dirty_mb=64").stdout == "osc.*.max_dirty_mb=64\n"
    assert host.run("lctl", "get_param", "-n", "osc.*.max_dirty_mb").stdout == "64\n"
    assert host.run("lctl", "get_param", "-n", "version").stdout.startswith("2.15")
    assert "No such file" in host.run("lctl", "get_param", "nothing").stderr


def test_lnet_takes_efa_only_with_its_module(host: Host) -> None:
    host.run("modprobe", "lnet")
    assert host.run("lnetctl", "net", "add", "--net", "efa", "--if", "rdmap92s0").returncode != 0
    host.run("modprobe", "kefalnd", "ipif_name=ens5")
    for arguments in (
        ["lnet", "configure"],
        ["net", "add", "--net", "efa", "--if", "rdmap92s0", "--peer-credits", "32"],
    ):
        assert host.run("lnetctl", *arguments).returncode == 0
    shown = host.run("lnetctl", "net", "show").stdout
    assert re.search(r"nid: \d+\.\d+\.92\.0@efa\n          status: up\n          interfaces:\n +0: rdmap92s0\n", shown)
    assert host.run("lnetctl", "net", "del", "--net", "efa").returncode == 0
    assert "@efa" not in host.run("lnetctl", "net", "show").stdout
