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
    assert _task(tmp_path / "my_digits.v2" / "job.yaml", "name: small\n") == Task("my_digits.v2", "small")
    assert _task(tmp_path / "one" / "job.yaml", "workdir: ../two\n", name="small") == Task("two", "small")
    monkeypatch.chdir(tmp_path)
    assert Task.of(load(LAYOUT, None, {"command": ["true"], "name": "a"})) == Task(tmp_path.name, "a")


ALIKE = ["実験", "訓練", "実験1", "訓練1", "1", "a b", "a (b)", "a-b", "a-b-", ".a-b", "x" * 64, "x" * 65, "x" * 66]


def test_every_folder_is_a_project_of_its_own(tmp_path: Path) -> None:
    """A task keeps its state in a folder with this name, so no two may be the same."""
    found = [_task(tmp_path / name / "job.yaml", "name: small\n").project for name in ALIKE]
    assert len(set(found)) == len(ALIKE)
    assert [name for name, project in zip(ALIKE, found, strict=True) if name == project] == [
        "1",
        "a-b",
        "a-b-",
        "x" * 64,
    ]
    assert found[ALIKE.index("a b")].startswith("a-b-")
    for project in found:
        assert _task(tmp_path / "job.yaml", f"project: {project!r}\nname: small\n").project == project  # it is allowed


def test_a_folder_is_the_same_project_on_every_machine(tmp_path: Path) -> None:
    """macOS may spell the name of a folder with combining characters, as Unicode's form NFD."""
    names = ("Übung", "U\u0308bung")
    assert len({_task(tmp_path / name / "job.yaml", "name: small\n").project for name in names}) == 1


def test_programs_with_a_project_are_tasks_of_their_own(tmp_path: Path) -> None:
    programs = ["実験.py", "訓練.py", "job.py", "my train.py", "my-train.py"]
    made = [{"command": ["python", each], "project": "numbers"} for each in programs]
    found = [Task.of(load(LAYOUT, None, each)) for each in made]
    assert len(set(found)) == len(programs) and found[2] == Task("numbers", "job")
    assert load(LAYOUT, None, {"command": ["python", "my train.py"]}).name == "my-train"


def test_a_job_without_a_name_is_no_task(tmp_path: Path) -> None:
    assert _task(tmp_path / "digits" / "job.yaml", "") is None
    assert _task(tmp_path / "digits" / "job.yaml", "project: numbers\n") == Task("numbers", "train")


@pytest.mark.parametrize("name", ["../other", "a/b", "", ".hidden"])
def test_a_project_stays_in_its_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(JobSpecError, match="project"):
        _task(tmp_path / "job.yaml", f"project: {name!r}\nname: a\n")
