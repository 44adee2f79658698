"""Mounting and unmounting a Lustre file system for a job, on the head and on the job's nodes."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
from test_steps import OWNER, source_of
from test_storage_steps import DNS, SOURCES, Node, fsx

OURS = ("job_lustre", "job_lustre_mount")
PLACES = ("/home/gpucluster", "/opt/gpucluster", "/run/gpucluster", "/etc/systemd")
MOUNT = f"-t lustre -o noatime,flock {DNS}@tcp:/abcdefgh /fsx"


def made(root: Path, role: str) -> Node:
    """A node of a cluster with such a file system, which exists and is used by job 7."""
    node = Node(root, role)
    for name in OURS:
        text = source_of(name).read_text().replace("root:root", OWNER)
        node.machine.step(name, re.sub(rf"({'|'.join(PLACES)})(?=[-/\s\".])", rf"{root}\1", text))
    node.machine.command("sync")
    for name in ("parameters", "locks"):
        node.machine.step(name, source_of(name).read_text())
    node.has(fsx(lifetime="jobs"))
    place = root / "home/gpucluster/lustre/fsx"
    (place / "mounts").mkdir(parents=True)
    known = {"mount": f"{root}/fsx", "dns_name": DNS, "mount_name": "abcdefgh", "version": "2.15"}
    (place / "state.json").write_text(json.dumps({**known, "for_everybody": "/,/results"}))
    (place / "mounts/7").write_text("".join(f"{line}\n" for line in known.values()))
    return node


@pytest.fixture
def head(tmp_path: Path) -> Node:
    return made(tmp_path, "head")


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return made(tmp_path, "compute")


def run(node: Node, *steps: str, job: str = "7") -> None:
    lines = [
        f"ROLE={node.role} JOB_LUSTRE_NAME=fsx JOB_LUSTRE_AT={node.root}/fsx SLURM_JOB_ID={job}",
        "report_failure() { :; }",
        "node_program() { :; }",
        'node_service() { echo "SERVICE $1"; }',
        *(f"run_step {step}" for step in steps),
    ]
    done = node.machine.run("\n".join(lines), *SOURCES, "parameters", *OURS)
    assert done.returncode == 0, done.stdout + done.stderr


def epilog(node: Node, job: str) -> str:
    script = node.root / "opt/gpucluster/epilog.d/90-job-lustre"
    environment = {"PATH": f"{node.machine.bin}:/usr/bin:/bin", "SLURM_JOB_ID": job, "ROOT": str(node.root)}
    done = subprocess.run([script], capture_output=True, text=True, check=True, env=environment)
    return done.stdout


def test_the_node_does_not_mount_it_at_boot(node: Node) -> None:
    """There is no mount at boot and no line in fstab."""
    assert node.run("lustre_client", "storage_mounts").returncode == 0
    assert (node.asked("mount"), node.fstab()) == ([], [])
    assert node.asked("modprobe"), "the client is there all the same"


def test_the_head_mounts_it_once_and_opens_it_to_everybody(head: Node) -> None:
    (head.root / "fsx/results").mkdir(parents=True)
    for _ in range(2):
        run(head, "job_lustre_mount")
    assert head.asked("mount") == [MOUNT]
    assert head.fstab() == []


def test_a_node_unmounts_it_after_the_last_job_that_uses_it(node: Node) -> None:
    mounts = node.root / "home/gpucluster/lustre/fsx/mounts"
    (mounts / "8").write_text((mounts / "7").read_text())
    run(node, "job_lustre", "job_lustre_mount")
    run(node, "job_lustre_mount", job="8")
    assert node.asked("mount") == [MOUNT]
    for job, unmounted in (("9", []), ("7", []), ("8", ["/fsx"]), ("8", ["/fsx"])):
        epilog(node, job)
        assert node.asked("umount") == unmounted, job


@pytest.mark.parametrize(
    ("answers", "asked"), [(False, ["/fsx", "--force --lazy /fsx"]), (True, ["/fsx", "--lazy /fsx"])]
)
def test_a_forced_unmount_only_if_the_file_system_does_not_answer(node: Node, answers: bool, asked: list[str]) -> None:
    """A forced unmount discards data that has not reached the servers."""
    run(node, "job_lustre", "job_lustre_mount")
    node.machine.command("umount", '[ $# -gt 1 ] && rm -f "$ROOT"/mounted/*')
    node.machine.command("df", "true" if answers else "exit 1")
    assert "stays mounted" not in epilog(node, "7")
    assert (node.asked("umount"), node.asked("sync")) == (asked, ["--file-system /fsx"])


def test_every_node_is_ready_for_one_that_is_added_while_it_runs(node: Node) -> None:
    node.has()
    run(node, "job_lustre")
    hooks = [node.root / "opt/gpucluster/prolog.d/11-job-lustre", node.root / "opt/gpucluster/epilog.d/90-job-lustre"]
    assert all(hook.exists() for hook in hooks)
    epilog(node, "7")
    assert node.asked("umount") == []
