"""`gpucluster tensorboard`: which folders it opens under which names. tests/nightly/test_tensorboard_opens.py opens
them with the real TensorBoard, and tests/unit/cluster/test_copying.py copies them with the real rsync."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from gpucluster.cli import main
from gpucluster.cli.seeing import tensorboard, viewer
from gpucluster.errors import GpuClusterError, RemoteError, UsageError
from gpucluster.following import event_files
from gpucluster.following.event_files import Run
from tests.in_process import InProcessRemote

Captured = pytest.CaptureFixture[str]


class Head(InProcessRemote):
    """Its jobs' folders are in a folder of this machine."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "by-id").mkdir(parents=True)

    def real(self, path: str) -> str:
        return str(self.root)

    def job(self, job_id: str, name: str = "digits", **task: str) -> Path:
        folder = self.root / f"{name}-20261129-120000-4f1a"
        folder.mkdir()
        (self.root / "by-id" / job_id).symlink_to(folder)
        if task:
            (folder / "task.json").write_text(json.dumps(task))
        return folder

    def sweep(self, job_id: str, *values: object, **task: str) -> Path:
        folder = self.job(job_id)
        (folder / "runs").mkdir()
        (folder / "runs" / job_id).write_text("\n".join(map(str, range(len(values)))))
        for index, each in enumerate(values):
            (folder / str(index)).mkdir()
            (folder / str(index) / "parameters.json").write_text(json.dumps(each))
            (folder / str(index) / "task.json").write_text(json.dumps(task))
        return folder


@pytest.fixture
def head(tmp_path: Path) -> Head:
    return Head(tmp_path / "jobs")


def test_a_job_that_is_no_task(head: Head) -> None:
    folder = head.job("12")
    assert event_files.of(head, ["12"]) == [Run("12", "12 digits", f"{folder}/state/tensorboard")]


def test_runs_of_one_task_are_one(head: Head) -> None:
    task = {"folder": "/home/ubuntu/tasks/digits/net", "state": "/home/ubuntu/tasks/digits/net/state"}
    head.job("12", "net", **task)
    head.job("13", "net2", **task)
    assert event_files.of(head, ["12", "13"]) == [Run("12", "12 net", f"{task['state']}/tensorboard")]


def test_a_state_elsewhere(head: Head) -> None:
    head.job("12", folder="/home/ubuntu/tasks/digits/net", state="/fsx/states/digits/net")
    assert event_files.of(head, ["12"])[0].folder == "/fsx/states/digits/net/tensorboard"


def test_the_elements_of_a_sweep_have_their_values_as_names(head: Head) -> None:
    task = {"folder": "/home/ubuntu/tasks/digits/net", "state": "/home/ubuntu/tasks/digits/net/state"}
    head.sweep("29", {"lr": "0.1", "seed": "1"}, {"lr": "0.01", "seed": "1"}, **task)
    assert event_files.of(head, ["29"]) == [
        Run("29_0", "29 digits/lr=0.1,seed=1", "/home/ubuntu/tasks/digits/net/0/state/tensorboard"),
        Run("29_1", "29 digits/lr=0.01,seed=1", "/home/ubuntu/tasks/digits/net/1/state/tensorboard"),
    ]
    assert [run.job_id for run in event_files.of(head, ["29_1"])] == ["29_1"]


def test_an_array_without_values_has_indexes(head: Head) -> None:
    folder = head.sweep("29", {}, {})
    assert event_files.of(head, ["29_1"]) == [Run("29_1", "29 digits/1", f"{folder}/1/state/tensorboard")]


@pytest.mark.parametrize("text", ["", "no json", "[1]", "null"])
def test_a_task_that_cannot_be_read_is_none(head: Head, text: str) -> None:
    folder = head.job("12")
    (folder / "task.json").write_text(text)
    assert event_files.of(head, ["12"])[0].folder == f"{folder}/state/tensorboard"


def test_a_job_that_is_not_there(head: Head, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpucluster.following.ownership.refuse_anothers", lambda remote, job_id: None)
    head.job("12")
    with pytest.raises(UsageError, match="job 13 has no folder"):
        event_files.of(head, ["12", "13"])


@pytest.mark.parametrize("value", ["../../../etc", "a/b", "\x1b[2J", "..", "", "x" * 5000, "é=1"])
def test_a_name_leads_nowhere_else(head: Head, tmp_path: Path, value: str) -> None:
    head.sweep("29", {"path": value}, {"path": f"{value}!"})
    runs = event_files.of(head, ["29"])
    logs = tensorboard.laid_out(tmp_path / "view", runs)
    links = [path for path in logs.rglob("*") if path.is_symlink()]
    assert len(links) == 2
    assert {path.parent for path in links} == {logs / "29 digits"}
    assert not any("\x1b" in str(path) for path in links)


def test_each_run_is_a_link_into_the_copy(tmp_path: Path) -> None:
    runs = [Run("12", "12 digits", "/home/ubuntu/x/tensorboard"), Run("13", "12 digits", "/y/tensorboard")]
    logs = tensorboard.laid_out(tmp_path, runs)
    assert (logs / "12 digits").readlink() == tmp_path / "copy/home/ubuntu/x/tensorboard"
    assert (logs / "12 digits (13)").readlink() == tmp_path / "copy/y/tensorboard"


def test_a_head_node_that_is_away_is_one_warning(capsys: Captured) -> None:
    answers = [RemoteError("no SSH connection"), RemoteError("no SSH connection"), None]
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)

    def copy() -> None:
        answer = answers.pop(0)
        if not answers:
            process.communicate(b"\n")
        if answer:
            raise answer

    tensorboard.again(process, 0.05, copy)
    assert answers == [] and process.returncode == 0
    assert capsys.readouterr().err.count("warning: nothing new can be copied: no SSH connection") == 1


def test_a_port_in_use_is_refused_if_it_was_asked_for() -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        number = holder.getsockname()[1]
        with pytest.raises(UsageError, match=f"port {number} of this machine is in use"):
            viewer.port(number)
    assert viewer.port(number) == number
    assert viewer.port(None) >= viewer.USUAL_PORT


def program(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


def test_a_machine_that_cannot_reach_pypi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What uv prints then, of a run without a network."""
    said = "error: Failed to fetch: `https://pypi.org/simple/tensorboard/`"
    program(tmp_path, "uv", f'[ "$1" = venv ] || {{ echo "{said}" >&2; exit 2; }}'.replace("`", "\\`"))
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    told: list[str] = []
    with pytest.raises(GpuClusterError, match="TensorBoard could not be installed: error: Failed to fetch"):
        viewer.python(told.append)
    assert told == [
        f"installing TensorBoard {viewer.VERSION} into {tmp_path}/cache/gpucluster/tensorboard-2.21.0, once"
    ]
    assert list((tmp_path / "cache" / "gpucluster").iterdir()) == []


def test_an_environment_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, "uv", 'for to; do :; done; [ "$1" = pip ] || { mkdir -p "$to/bin"; echo >"$to/bin/python"; }')
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    told: list[str] = []
    first = viewer.python(told.append)
    assert first.exists() and viewer.python(told.append) == first
    assert len(told) == 1


def test_a_tensorboard_that_ends_says_why(tmp_path: Path) -> None:
    program(tmp_path, "python", "echo 'ImportError: no numpy' >&2; exit 1")
    started = viewer.shown(tmp_path / "python", str(tmp_path), viewer.port(None), 5)
    with pytest.raises(GpuClusterError, match="TensorBoard did not start: ImportError: no numpy"), started:
        pass


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["x"], "must be a job ID such as 12"),
        (["s3://a/b", "12"], "takes one s3:// address, or job IDs"),
        (["12", "s3://a/b"], "must be a job ID such as 12"),
        (["--port", "0"], "--port"),
        (["--interval", "1"], "--interval"),
    ],
)
def test_wrong_words(words: list[str], said: str, capsys: Captured) -> None:
    assert main(["tensorboard", *words]) == 2
    assert said in capsys.readouterr().err
