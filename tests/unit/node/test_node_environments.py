"""The states of environments on the head, from folders, logs and Slurm's list of jobs."""

from __future__ import annotations

from pathlib import Path

import pytest
from gpucluster_node.jobs import environments


@pytest.fixture
def envs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(environments, "ENVIRONMENTS", tmp_path)
    for name in (".wanted", ".log", "torch-01"):
        (tmp_path / name).mkdir()
    (tmp_path / ".wanted/torch").symlink_to("../torch-01")
    return tmp_path


def state(jobs: dict[str, str] | None = None) -> tuple[str, str, str]:
    found = environments.describe("torch", "train", jobs or {})
    return found.state, found.job, found.error


FAILED = "making torch-01\nerror: the environment torch could not be built on train-1: no space\n"


def test_states(envs: Path) -> None:
    assert state() == ("missing", "", "")
    assert state({"environment-torch": "7", "train": "8"}) == ("being made", "7", "")
    (envs / ".log/torch-01.txt").write_text(FAILED)
    assert state() == ("failed", "", "the environment torch could not be built on train-1: no space")
    (envs / "torch-01/complete").touch()
    assert state() == ("ready", "", "")


def test_one_job_at_a_time_makes_it(envs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (envs / "environments").mkdir()
    (envs / "environments/partitions").write_text("torch train 1\n")
    monkeypatch.setattr(environments, "LOCK", envs / "lock")
    monkeypatch.setattr(environments.partitions, "__defaults__", (envs,))
    queue, called = [""], []

    def run(argv: list[str]) -> str:
        called.append(argv)
        return queue[0] if argv[0] == "squeue" else "7\n"

    monkeypatch.setattr(environments, "_run", run)
    assert list(environments.ensure(["torch"])) == ["torch 7 started"]
    assert "--partition=train" in called[-1] and "--exclusive" in called[-1]
    queue[0] = "6 FAILED environment-torch\n7 STOPPED environment-torch\n5 CANCELLED environment-torch\n"
    assert list(environments.ensure(["torch"])) == ["torch 7 waiting"]
    (envs / "torch-01/complete").touch()
    assert list(environments.ensure(["torch"])) == ["torch ready"]
    assert [argv[0] for argv in called].count("sbatch") == 1
    with pytest.raises(SystemExit, match="no environment 'jax' in this cluster, there are: torch"):
        list(environments.ensure(["jax"]))
