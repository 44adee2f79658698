"""A running node when its head node has a new address, with stand-ins for DNS and nft."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

PROGRAM = Path(__file__).resolve().parents[3] / "bootstrap/programs/bin/follow-head"


def follow(folder: Path, *answers: str, mounts: str = "") -> list[str]:
    """The tables that it loads while DNS gives these answers; empty: none. mounts: as in /proc/self/mounts."""
    folder.mkdir(exist_ok=True)
    (folder / "mounts").write_text(f"sysfs /sys sysfs rw 0 0\n{mounts}\n")
    (folder / "answers").write_text("".join(f"{answer}\n" for answer in answers))
    for name, text in {
        "getent": f'sed -n "1s/..*/& STREAM head/p" {folder}/answers',
        "sleep": f"sed -i 1d {folder}/answers; [ -s {folder}/answers ] || kill $PPID",
        "nft": f"cat >{folder}/loaded.$(ls {folder} | grep -c loaded)",
    }.items():
        (folder / name).write_text(f"#!/bin/bash\n{text}\n")
        (folder / name).chmod(0o755)
    script = PROGRAM.read_text().replace("/run/gpucluster", f"{folder}/run")
    assert "/proc/self/mounts" in script
    script = script.replace("/proc/self/mounts", f"{folder}/mounts")
    environment = {"PATH": f"{folder}:{os.environ['PATH']}"}
    subprocess.run(
        ["bash", "-c", script, "follow-head", "head.c.internal", "296", "297"], env=environment, check=False, timeout=60
    )
    return [path.read_text() for path in sorted(folder.glob("loaded.*"))]


def rules(table: str) -> list[tuple[str, str]]:
    return re.findall(r"ip daddr (\S+) tcp dport \{ 296, 297 \} dnat to (\S+)", table)


@pytest.mark.parametrize(
    ("answers", "loaded"),
    [
        (("10.0.0.5", "10.0.0.5"), []),
        (("10.0.0.5", "10.0.0.9", "10.0.0.9"), [[("10.0.0.5", "10.0.0.9")]]),
        (("10.0.0.5", "", "10.0.0.9"), [[("10.0.0.5", "10.0.0.9")]]),
        (("10.0.0.5", "10.0.0.9", "10.0.0.7"), [[("10.0.0.5", "10.0.0.9")], [("10.0.0.5", "10.0.0.7")]]),
        (("10.0.0.5", "10.0.0.9", "10.0.0.5"), [[("10.0.0.5", "10.0.0.9")], []]),
    ],
    ids=["the same head", "another head", "DNS is away", "and another one", "the first one is back"],
)
def test_connections_follow_the_head(
    tmp_path: Path, answers: tuple[str, ...], loaded: list[list[tuple[str, str]]]
) -> None:
    assert [rules(table) for table in follow(tmp_path / "node", *answers)] == loaded


def test_a_restart_of_the_program_keeps_the_address_of_the_mount(tmp_path: Path) -> None:
    follow(tmp_path / "node", "10.0.0.5")
    (table,) = follow(tmp_path / "node", "10.0.0.9")
    assert rules(table) == [("10.0.0.5", "10.0.0.9")]


NFS = "head.c.internal:/home /home nfs4 rw,vers=4.2,proto=tcp,clientaddr=10.0.1.7,local_lock=none,addr=10.0.0.5 0 0"
EFS_TLS = "127.0.0.1:/ /home nfs4 rw,vers=4.1,proto=tcp,port=225,clientaddr=127.0.0.1,addr=127.0.0.1 0 0"
EFS = "fs-1.efs.us-east-1.amazonaws.com:/ /home nfs4 rw,vers=4.1,clientaddr=10.0.1.7,addr=10.0.0.8 0 0"


@pytest.mark.parametrize(
    ("mounts", "loaded"),
    [(NFS, [[("10.0.0.5", "10.0.0.9")]]), (EFS_TLS, []), (EFS, [])],
    ids=["the head node's", "EFS through a tunnel", "EFS"],
)
def test_the_old_address_is_that_of_the_mount(tmp_path: Path, mounts: str, loaded: list[list[tuple[str, str]]]) -> None:
    """The head node may be replaced between the mount and the program's first start."""
    assert [rules(table) for table in follow(tmp_path / "node", "10.0.0.9", "10.0.0.9", mounts=mounts)] == loaded
