"""One node's part in a job's file system in memory: the order of the actions, and failures."""

from __future__ import annotations

import json
import os
import shutil
import socket
import time
from pathlib import Path

import pytest
from gpucluster_node import fleet
from gpucluster_node.beegfs import for_jobs
from gpucluster_node.locations import Refused

SERVICES = """
echo "$1 management=${MANAGEMENT-} number=${NUMBER-}" >>"$CALLS"
[ "$1" != "${FAILS-}" ] || { echo 'step=beegfs_server line=3: no memory (log boot.log)'; exit 1; }
if [ "$1" = list ]; then cat "$REGISTERED"; fi
"""
BOTH = "meta 1\nmeta 2\nstorage 1\nstorage 2\n"


class Node:
    """A simulated machine for the program: its folders, and the program's calls."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root, self.calls_file, self.registered = root, root / "calls", root / "registered"
        self.folder, self.mount = root / "job", root / "ram"
        for path in (self.folder / "ram", self.mount, root / "bundle"):
            path.mkdir(parents=True)
        (root / "bundle/beegfs.sh").write_text(SERVICES)
        self.calls_file.touch()
        self.registered.write_text(BOTH)
        self.patch = monkeypatch
        monkeypatch.setattr(fleet, "BUNDLE", root / "bundle")
        monkeypatch.setattr(for_jobs, "SERVICES", root / "bundle/beegfs.sh")
        monkeypatch.setattr(for_jobs, "STATE", root / "run/state.json")
        monkeypatch.setattr(for_jobs, "address", lambda node: f"{node}.test")
        monkeypatch.setattr(for_jobs, "answers", lambda node, port: True)
        monkeypatch.setattr(for_jobs, "as_user", lambda user, *argv: list(argv))
        monkeypatch.setattr(for_jobs, "READY_S", 0.3)
        monkeypatch.setattr(shutil, "chown", lambda path, user, group: None)
        monkeypatch.setattr(os, "environ", {**os.environ, "CALLS": str(self.calls_file), "SUDO_UID": "0"})
        os.environ["REGISTERED"] = str(self.registered)
        self.settings(export="/fsx/out")

    def settings(self, **keys: object) -> None:
        known = {"mount": str(self.mount), "source": None, "export": None, **keys}
        (self.root / "bundle/beegfs.json").write_text(json.dumps(known))

    def serve(self, this: str = "train-1") -> None:
        self.patch.setattr(socket, "gethostname", lambda: this)
        for_jobs.serve("7", str(self.folder), "train-1", "train-2")

    def calls(self) -> list[str]:
        lines = self.calls_file.read_text().splitlines()
        self.calls_file.write_text("")
        return lines

    def program(self, body: str) -> None:
        """A stand-in for the program that copies as the job's user."""
        path = self.root / "job-ram"
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
        self.patch.setattr(for_jobs, "PROGRAM", str(path))

    def log(self) -> str:
        path = self.folder / "log.txt"
        return path.read_text() if path.exists() else ""


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    return Node(tmp_path, monkeypatch)


def test_the_first_node_manages_and_waits_for_all_servers(node: Node) -> None:
    node.serve("train-1")
    arguments = "management=train-1.test number=1"
    assert node.calls() == ["leave management= number="] + [
        f"{verb} {arguments}" for verb in ("management", "server", "list")
    ]
    for_jobs.mount()
    assert node.calls() == [f"client {arguments}"]
    assert (node.mount / ".gpucluster").is_dir()


def test_the_others_only_serve_and_mount(node: Node) -> None:
    node.serve("train-2")
    for_jobs.mount()
    arguments = "management=train-1.test number=2"
    assert node.calls() == ["leave management= number=", f"server {arguments}", f"client {arguments}"]


def test_no_node_continues_before_all_servers_run(node: Node) -> None:
    node.registered.write_text("meta 1\nmeta 2\nstorage 1\n")
    with pytest.raises(Refused, match="all servers of 2 nodes did not start within 0.3 s"):
        node.serve()


def test_management_that_does_not_answer_yet_is_asked_again(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    os.environ["FAILS"] = "list"
    monkeypatch.setattr(time, "sleep", lambda _: os.environ.pop("FAILS", None))
    node.serve()
    assert [call.split()[0] for call in node.calls()] == ["leave", "management", "server", "list", "list"]


def test_without_servers_nothing_is_mounted(node: Node) -> None:
    with pytest.raises(Refused, match="no file system of this job is here"):
        for_jobs.mount()


def test_a_service_that_fails_leaves_nothing_and_says_why(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    os.environ["FAILS"] = "server"
    with pytest.raises(Refused, match="server: step=beegfs_server line=3: no memory"):
        node.serve()
    assert node.calls()[-1].startswith("leave")
    assert not for_jobs.STATE.exists()


def test_a_machine_outside_the_job_is_not_changed(node: Node) -> None:
    with pytest.raises(Refused, match="train-9 is not a node of the job: train-1 train-2"):
        node.serve("train-9")


def test_a_job_that_wrote_everything_back_is_only_ended(node: Node) -> None:
    node.program("echo exported again; exit 9")
    node.serve()
    node.calls()
    (node.folder / "ram/exported").touch()
    for_jobs.release()
    assert node.calls() == ["leave management= number="]
    assert (node.log(), for_jobs.STATE.exists()) == ("", False)


def test_a_new_file_system_forgets_earlier_write_backs(node: Node) -> None:
    (node.folder / "ram/exported").touch()
    (node.folder / "ram/ended").touch()
    node.serve()
    assert list((node.folder / "ram").iterdir()) == []


def test_the_epilog_writes_back_files_of_a_stopped_job(node: Node) -> None:
    node.program('echo "train-1: exported 3 files $*"')
    node.serve()
    for_jobs.release()
    assert node.log() == "[ram] train-1: exported 3 files export 0 1\n"
    assert (node.folder / "ram/ended").exists()
    assert node.calls()[-1].startswith("leave")


def test_a_failed_export_in_the_epilog_is_reported(node: Node) -> None:
    node.program("echo 'error: train-1: no bucket'; exit 1")
    node.serve()
    for_jobs.release()
    assert node.log() == "[ram] error: train-1: no bucket; files that did not get there are lost\n"


def test_after_the_loss_of_a_server_no_exported_file_is_overwritten(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.program("echo exported")
    node.serve()
    monkeypatch.setattr(for_jobs, "answers", lambda name, port: name != "train-2")
    for_jobs.release()
    assert node.log() == f"[ram] warning: nothing is exported: train-2 and its part of {node.mount} are lost\n"


def test_another_node_waits_for_the_first_to_be_done(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.serve("train-2")
    node.calls()
    waits: list[str] = []

    def sleep(_: float) -> None:
        waits.append(node.calls_file.read_text())
        (node.folder / "ram/ended").touch()

    monkeypatch.setattr(time, "sleep", sleep)
    for_jobs.release()
    assert waits == [""]
    assert node.calls() == ["leave management= number="]


def test_it_does_not_wait_for_a_lost_first_node(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.serve("train-2")
    monkeypatch.setattr(for_jobs, "answers", lambda name, port: False)
    monkeypatch.setattr(time, "sleep", lambda _: None)
    for_jobs.release()
    assert not for_jobs.STATE.exists()


def test_the_epilog_of_another_job_touches_nothing(node: Node) -> None:
    node.serve()
    node.calls()
    os.environ["SLURM_JOB_ID"] = "8"
    for_jobs.release()
    assert (node.calls(), for_jobs.STATE.exists()) == ([], True)


def test_memory_that_is_not_freed_fails_the_epilog(node: Node) -> None:
    node.serve()
    (node.folder / "ram/exported").touch()
    os.environ["FAILS"] = "leave"
    assert for_jobs._run(["release"]) == 1
    assert for_jobs.STATE.exists()


@pytest.mark.parametrize(("status", "ended"), [(0, False), (1, True)])
def test_a_lost_part_is_announced_and_the_job_requeued_or_ended(
    node: Node, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], status: int, ended: bool
) -> None:
    looks: list[str] = []
    killed: list[int] = []

    def answers(name: str, port: int) -> bool:
        looks.append(name)
        return name == "train-1" or len(looks) < 9

    monkeypatch.setattr(for_jobs, "answers", answers)
    monkeypatch.setattr(time, "sleep", lambda _: None)
    monkeypatch.setattr(os, "kill", lambda pid, number: killed.append(pid))
    scontrol = node.root / "scontrol"
    scontrol.write_text(f'#!/bin/sh\necho "$*" >>{node.calls_file}\necho disabled >&2\nexit {status}\n')
    scontrol.chmod(0o755)
    os.environ["PATH"] = f"{node.root}:{os.environ['PATH']}"
    for_jobs.watch("7", str(node.folder), "4711", "train-1", "train-2")
    assert node.calls() == ["requeue 7"]
    assert (node.folder / "ram/lost").read_text() == "train-2\n"
    said = capsys.readouterr().out
    assert said.startswith(f"[ram] lost: train-2 and its part of {node.mount}; data only in {node.mount} is lost\n")
    assert (killed == [4711], "the job is not requeued but ended: disabled" in said) == (ended, ended)


def test_one_late_answer_does_not_make_a_server_lost(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = iter([False, False, True, False, False, True])

    def serves(name: str) -> bool:
        found = next(looks, None)
        if found is None:
            raise InterruptedError
        return found

    monkeypatch.setattr(for_jobs, "serves", serves)
    monkeypatch.setattr(time, "sleep", lambda _: None)
    with pytest.raises(InterruptedError):
        for_jobs.watch("7", str(node.folder), "4711", "train-1")


def test_answers_asks_the_port(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(for_jobs, "address", lambda name: "127.0.0.1")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert for_jobs.answers("train-1", port)
    assert not for_jobs.answers("train-1", port)
