"""Which task a job is a run of."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpucluster.config import loads
from gpucluster.errors import JobSpecError
from gpucluster.job import load
from gpucluster.job.task import Task
from gpucluster.layout import expand

LAYOUT = expand(
    loads("name: Test\nregion: us-east-1\npartitions: [{name: train, instance_types: [g5.xlarge], max_nodes: 4}]\n")
)


def _task(path: Path, text: str, **flags: object) -> Task | None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"command: [python, train.py]\n{text}")
    return Task.of(load(LAYOUT, path, flags))


def test_a_job_with_a_name_is_a_run_of_a_task(tmp_path: Path) -> None:
    task = _task(tmp_path / "digits" / "job.yaml", "name: small\nproject: numbers\n")
    assert task == Task("numbers", "small")
    assert task.state == "/home/ubuntu/tasks/numbers/small/state"
    assert Task("numbers", "small", "lr=0.1").folder == "/home/ubuntu/tasks/numbers/small/lr=0.1"


def test_the_project_is_the_folder_that_is_uploaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _task(tmp_path / "my digits!" / "job.yaml", "name: small\n") == Task("my-digits", "small")
    assert _task(tmp_path / "one" / "job.yaml", "workdir: ../two\n", name="small") == Task("two", "small")
    monkeypatch.chdir(tmp_path)
    assert Task.of(load(LAYOUT, None, {"command": ["true"], "name": "a"})) == Task(tmp_path.name, "a")


def test_a_job_without_a_name_is_no_task(tmp_path: Path) -> None:
    assert _task(tmp_path / "digits" / "job.yaml", "") is None
    assert _task(tmp_path / "digits" / "job.yaml", "project: numbers\n") == Task("numbers", "train")


@pytest.mark.parametrize("name", ["../other", "a/b", "", ".hidden"])
def test_a_project_stays_in_its_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(JobSpecError, match="project"):
        _task(tmp_path / "job.yaml", f"project: {name!r}\nname: a\n")
