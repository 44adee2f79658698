"""What Weights & Biases and MLflow learn about a job. wandb 0.31.0 (offline) and MLflow 3.17.2 (a file store) were run
with the variables of `test_the_first_rank_of_a_job`: the run had this id, name, group, tags and commit, and the tags
mlflow.runName, mlflow.source.git.commit, gpucluster.job and gpucluster.cluster."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from gpucluster.config import loads
from gpucluster.job import load
from gpucluster.job.spec import JobSpec
from gpucluster.layout import expand
from gpucluster.submission import commit
from gpucluster_job.ranks import trackers

COMMIT = "0123456789abcdef0123456789abcdef01234567"
JOB = {"SLURM_JOB_ID": "12", "SLURM_JOB_NAME": "digits", "SLURM_CLUSTER_NAME": "lab"}
BOTH = JOB | {"WANDB_API_KEY": "secret", "MLFLOW_TRACKING_URI": "http://tracker:5000"}
LAYOUT = expand(
    loads("name: lab\nregion: us-east-1\npartitions: [{name: train, instance_types: [g5.12xlarge], max_nodes: 2}]\n")
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = tmp_path / "digits-20261129-120000-4f1a"
    made.mkdir()
    monkeypatch.setenv("GPUCLUSTER_JOB_DIR", str(made))
    monkeypatch.delenv("GPUCLUSTER_ARRAY_DIR", raising=False)
    return made


def test_the_first_rank_of_a_job(folder: Path) -> None:
    (folder / trackers.COMMIT).write_text(json.dumps({"commit": COMMIT, "changed": True}))
    found = trackers.variables(BOTH, first=True)
    context = json.loads(found.pop("MLFLOW_RUN_CONTEXT"))
    assert found == {
        "WANDB_RUN_ID": "digits-20261129-120000-4f1a",
        "WANDB_RESUME": "allow",
        "WANDB_NAME": "digits 12",
        "WANDB_RUN_GROUP": "digits 12",
        "WANDB_TAGS": "gpucluster,job 12,cluster lab,uncommitted changes",
        "WANDB_GIT_COMMIT": COMMIT,
    }
    assert context == {
        "mlflow.runName": "digits 12",
        "mlflow.source.git.commit": COMMIT,
        "gpucluster.job": "12",
        "gpucluster.cluster": "lab",
        "gpucluster.uncommitted_changes": "true",
    }


def test_other_ranks_are_in_its_group_and_make_runs_of_their_own() -> None:
    found = trackers.variables(BOTH, first=False)
    assert found["WANDB_RUN_GROUP"] == "digits 12"
    assert not {"WANDB_RUN_ID", "WANDB_RESUME", "WANDB_NAME"} & set(found)


def test_the_elements_of_a_sweep_are_runs_of_one_group(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUCLUSTER_ARRAY_DIR", str(folder))
    monkeypatch.setenv("GPUCLUSTER_JOB_DIR", str(folder / "3"))
    element = {"SLURM_JOB_ID": "33", "SLURM_ARRAY_JOB_ID": "29", "SLURM_ARRAY_TASK_ID": "3"}
    found = trackers.variables(BOTH | element, first=True)
    assert (found["WANDB_RUN_GROUP"], found["WANDB_NAME"]) == ("digits 29", "digits 29_3")
    assert found["WANDB_RUN_ID"] == "digits-20261129-120000-4f1a-3"
    assert json.loads(found["MLFLOW_RUN_CONTEXT"])["gpucluster.job"] == "29_3"


def test_what_the_user_sets_wins() -> None:
    own = {"WANDB_RUN_ID": "mine", "WANDB_TAGS": "a,b", "MLFLOW_RUN_CONTEXT": "{}"}
    assert not set(own) & set(trackers.variables(BOTH | own, first=True))


@pytest.mark.parametrize("known", [JOB, JOB | {"WANDB_PROJECT": "p"}])
def test_a_job_without_a_tracker_gets_nothing(known: dict[str, str]) -> None:
    assert trackers.variables(known, first=True) == {}


def test_offline_runs_need_no_key() -> None:
    assert "WANDB_RUN_ID" in trackers.variables(JOB | {"WANDB_MODE": "offline"}, first=True)


@pytest.mark.parametrize("text", ["", "[]", "no json"])
def test_without_a_commit_there_is_none(folder: Path, text: str) -> None:
    (folder / trackers.COMMIT).write_text(text)
    found = trackers.variables(BOTH, first=True)
    assert "WANDB_GIT_COMMIT" not in found
    assert "mlflow.source.git.commit" not in json.loads(found["MLFLOW_RUN_CONTEXT"])


def test_a_long_name_fits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUCLUSTER_JOB_DIR", str(tmp_path / f"{'a' * 64}-20261129-120000-4f1a"))
    found = trackers.variables(BOTH | {"SLURM_CLUSTER_NAME": "x" * 90}, first=True)
    assert len(found["WANDB_RUN_ID"]) == 60 and found["WANDB_RUN_ID"].endswith("-20261129-120000-4f1a")
    assert max(map(len, found["WANDB_TAGS"].split(","))) == 64


def spec(**flags: object) -> JobSpec:
    return load(LAYOUT, flags={"command": ("true",)} | flags)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    made = tmp_path / "repository"
    made.mkdir()
    (made / "train.py").write_text("print()\n")
    for words in (
        ["init"],
        ["add", "."],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "--message", "First"],
    ):
        subprocess.run(["git", "-C", made, *words], check=True, capture_output=True)
    return made


def test_the_commit_of_the_uploaded_code(repository: Path) -> None:
    head = subprocess.run(["git", "-C", repository, "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
    asked = spec(secrets=("WANDB_API_KEY",))
    found = json.loads(commit.files(asked, repository)["commit.json"].text)
    assert found == {"commit": head.stdout.strip(), "changed": False}
    (repository / "new.py").write_text("1\n")
    assert json.loads(commit.files(asked, repository)["commit.json"].text)["changed"]


def test_no_commit_is_asked_for_in_vain(repository: Path, tmp_path: Path) -> None:
    asked = spec(env={"MLFLOW_TRACKING_URI": "http://tracker:5000"})
    assert commit.files(spec(), repository) == {}
    assert commit.files(asked, None) == {}
    (tmp_path / "none").mkdir()
    assert commit.files(asked, tmp_path / "none") == {}
    subprocess.run(["git", "-C", tmp_path / "none", "init"], check=True, capture_output=True)
    assert commit.files(asked, tmp_path / "none") == {}
