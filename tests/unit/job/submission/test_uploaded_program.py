"""The nodes get only what `submit` uploads: a program that git ignores is refused before nodes are paid for."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest

from gpucluster.config import loads
from gpucluster.errors import UsageError
from gpucluster.layout import expand
from gpucluster.submission.prepare import Prepared, prepare
from gpucluster.submission.snapshot import FETCHED
from gpucluster.submission.task import code_key

LAYOUT = expand(
    loads("name: T\nregion: us-east-1\npartitions: [{name: train, instance_types: [g5.12xlarge], max_nodes: 4}]\n")
)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in a repository, whose root decides what git ignores."""
    for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"):
        monkeypatch.setenv(name, os.devnull)
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    folder = tmp_path / "experiments" / "exp1"
    (folder / "src").mkdir(parents=True)
    for name in ("train.py", "run.sh", "src/train.py", "src/__init__.py", "conf.yaml", "tool"):
        (folder / name).write_text("print()\n")
    monkeypatch.chdir(folder)
    return folder


def _job(command: str, **keys: object) -> Prepared:
    return prepare(LAYOUT, None, {"command": tuple(shlex.split(command)), **keys})


def _refusal(command: str, **keys: object) -> str:
    try:
        _job(command, **keys).checked()
    except UsageError as error:
        return f"{error.message}; {error.hint}"
    return ""


@pytest.mark.parametrize("ignored", ["*\n", "experiments/\n", "exp1\n", "*.*\nrun.sh\ntool\n.*\n"])
@pytest.mark.parametrize("command", ["python train.py", "hostname"])
def test_a_workdir_of_which_git_ignores_everything(project: Path, tmp_path: Path, ignored: str, command: str) -> None:
    (tmp_path / ".gitignore").write_text(ignored)
    said = _refusal(command)
    assert "git ignores all files of the workdir .: nothing would be uploaded" in said or "train.py" in said
    assert "check-ignore" in said
    assert _refusal("hostname", workdir=None) == ""


@pytest.mark.parametrize(
    ("ignored", "command", "named"),
    [
        ("train.py\n", "python train.py", "train.py"),
        ("train.py\n", "python -u -X dev ./train.py --lr 3", "./train.py"),
        ("train.py\n", "env A=1 nohup python3 src/train.py", "src/train.py"),
        ("src/\n", "python -m src.train", "src"),
        ("run.sh\n", "bash -eu run.sh", "run.sh"),
        ("run.sh\n", "./run.sh", "./run.sh"),
        ("src\n", "src/train.py", "src/train.py"),
    ],
)
def test_a_program_that_git_ignores(project: Path, tmp_path: Path, ignored: str, command: str, named: str) -> None:
    assert _refusal(command) == ""
    (tmp_path / ".gitignore").write_text(ignored)
    said = _refusal(command)
    assert f"command: git ignores {named} in the workdir ., so it would not be uploaded" in said
    assert f"git -C . check-ignore -v {named}" in said
    assert any("git ignores" in doubt for doubt in _job(command).doubts())
    subprocess.run(["git", "add", "--force", "."], check=True)
    assert _refusal(command) == ""


@pytest.mark.parametrize(
    "command",
    [
        "python -u trainn.py",
        "env A=1 python trainn.py",
        "bash none.sh",
        "bash -euo pipefail none.sh",
        "./none",
        "src/none",
        "uv run python none.py",
    ],
)
def test_a_program_that_is_not_there(project: Path, command: str) -> None:
    assert "in the workdir ., which is all that nodes get from this machine" in _refusal(command)


@pytest.mark.parametrize(
    "command",
    [
        "python -m torch.utils.collect_env",
        "python -",
        "python -c 'import x'",
        "python /home/ubuntu/train.py",
        "bash -c 'python none.py'",
        "env --chdir=src python train.py",
        "bash -euo pipefail run.sh",
        "bash --norc -eo pipefail run.sh",
        "bash -euxo pipefail -c 'python none.py'",
        "uv run --index-url https://download.pytorch.org/whl/cu124 python train.py",
        "uv run --directory src/none python train.py",
        "conda run -n env --cwd /fsx/code python main.py",
        "poetry run -C /fsx/code python main.py",
        "apptainer exec --nv --mount type=bind,src=/a,dst=/b docker://nvcr.io/nvidia/pytorch:24.01-py3 python train.py",
        "apptainer exec --pwd /workspace image.sif python main.py",
        "/usr/bin/env",
        "nvidia-smi",
        "~/x",
    ],
)
def test_programs_from_elsewhere(project: Path, command: str) -> None:
    assert _refusal(command) == ""


def test_a_program_outside_the_workdir(project: Path) -> None:
    (project / "train.py").rename(project.parent / "train.py")
    assert "command: ../train.py is outside the workdir" in _refusal("python ../train.py")


def test_a_program_behind_a_link_to_a_folder(project: Path) -> None:
    (project / "link").symlink_to("src")
    assert _refusal("python link/train.py") == ""


def test_a_file_that_the_command_names(project: Path, tmp_path: Path) -> None:
    """It is only a warning: the program may not need it."""
    (tmp_path / ".gitignore").write_text("*.yaml\nsrc\n")
    for command in ("python train.py --config conf.yaml", "python train.py --config=conf.yaml"):
        (warning,) = _job(command).checked()
        assert warning == "the command names conf.yaml, which git ignores: it is not uploaded"
    assert _job("python train.py src").checked() == ()  # it may be where the program writes


def test_a_folder_without_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    monkeypatch.chdir(tmp_path)
    assert _refusal("hostname") == ""
    (tmp_path / ".gitignore").write_text("*")
    (tmp_path / "train.py").write_text("")
    assert _refusal("python train.py") == ""


def test_a_program_of_a_fetched_folder_without_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job-12").mkdir()
    (tmp_path / "job-12" / ".gitignore").write_text(FETCHED)
    for name in ("job-12/train.py", "train.py"):
        (tmp_path / name).write_text("")
    said = _refusal("python job-12/train.py")
    assert said.startswith("command: job-12/train.py in the workdir . would not be uploaded; copy it")
    assert "git ignores" not in said and "gpucluster fetch" in said


def test_links_to_themselves_and_to_each_other(project: Path) -> None:
    """wandb issues 768 and 3733: pathlib's `resolve` raises RuntimeError for them before Python 3.13."""
    for name, target in (("loop", "loop"), ("a", "b"), ("b", "a"), ("src/loop", "../src/loop")):
        (project / name).symlink_to(target)
    job = _job("python train.py", name="small", setup=("cat loop",))
    assert job.checked() == ()
    assert code_key(project) and job.packed({})
    assert "there is no such folder" in _refusal("python train.py", name="small", workdir="loop")
