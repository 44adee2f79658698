"""The Python API, with a head node on this machine."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import gpucluster
from gpucluster import account
from gpucluster.client import Cluster, Job
from gpucluster.client import run as running
from gpucluster.config import loads
from gpucluster.errors import JobFailedError, JobSpecError, NotDeployedError, RemoteError, UsageError
from gpucluster.following import jobs, patience
from gpucluster.head.remote import Completed
from gpucluster.layout import expand
from gpucluster.submission import prepare
from gpucluster.submission import submit as submission
from tests.in_process import InProcessRemote

LAYOUT = expand(
    loads("name: Test\nregion: us-east-1\npartitions: [{name: train, instance_types: [g5.12xlarge], max_nodes: 4}]\n")
)
FORGOTTEN = 'echo "slurm_load_jobs error: Invalid job id specified" >&2; exit 1'
RUNNING = "echo '42|RUNNING|train|1|train-1|0:04|UNLIMITED|x|x|raise|None'"


@pytest.fixture
def head(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """sbatch gives id 42; Slurm has forgotten every job."""
    (tmp_path / "bin").mkdir()
    says(tmp_path, "sbatch", "echo 42")
    says(tmp_path, "squeue", FORGOTTEN)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setattr(account, "home", lambda: str(tmp_path))
    monkeypatch.setattr(prepare, "folder_path", lambda name: f"{tmp_path}/jobs/{name}")
    monkeypatch.setattr(submission, "ENVIRONMENTS", str(tmp_path / "envs"))
    monkeypatch.setattr(jobs, "ENVIRONMENTS", str(tmp_path / "envs"))
    monkeypatch.setattr(jobs, "POLL_S", 0.01)
    (tmp_path / "envs" / ".wanted" / "torch").mkdir(parents=True)
    (tmp_path / "envs" / ".wanted" / "torch" / "complete").touch()
    (tmp_path / "train.py").write_text("print()\n")
    return tmp_path


def says(head: Path, command: str, text: str) -> None:
    (head / "bin" / command).write_text(f"#!/bin/sh\n{text}\n")
    (head / "bin" / command).chmod(0o755)


@pytest.fixture
def cluster(head: Path) -> Cluster:
    return Cluster(LAYOUT, InProcessRemote(), head / "cluster.yaml")


def job(head: Path, **keys: object) -> Job:
    return Job(**{"command": ["python", "train.py"], "workdir": str(head)} | keys)


def ends(head: Path, **result: object) -> None:
    (head / "jobs" / "by-id" / "42" / "result.json").write_text(json.dumps(result))


def test_a_job_is_submitted_and_its_result_is_an_object(head: Path, cluster: Cluster) -> None:
    run = cluster.submit(job(head, nodes=2))
    assert run.job_id == "42" and "--nodes=2" in (Path(run.folder) / "job.sbatch").read_text()
    assert (Path(run.folder) / "code" / "train.py").exists()
    ends(head, exit_code=0, metrics={"accuracy": 0.9})
    result = run.wait(timeout_s=5).check()
    assert (result.state, result.succeeded, result.metrics) == ("COMPLETED", True, {"accuracy": 0.9})
    assert cluster.run(42).result() == result and [each.job_id for each in cluster.runs()] == ["42"]


def test_a_job_that_failed_says_why(head: Path, cluster: Cluster) -> None:
    run = cluster.submit(job(head))
    ends(head, exit_code=1, failed_rank=3, failed_node="train-1", reason="RuntimeError: bad")
    result = run.wait()
    assert result.reason == "rank 3 on train-1 exited with code 1: RuntimeError: bad"
    with pytest.raises(JobFailedError, match="job 42 failed: rank 3 on train-1"):
        result.check()


def test_waiting_ends_at_its_timeout_and_the_job_goes_on(head: Path, cluster: Cluster) -> None:
    run = cluster.submit(job(head))
    says(head, "squeue", RUNNING)
    assert run.state == "RUNNING" and run.result() is None
    with pytest.raises(TimeoutError, match="job 42 has not ended yet"):
        run.wait(timeout_s=0.05)


def test_many_jobs_are_waited_for_at_once(head: Path, cluster: Cluster) -> None:
    """More than asyncio has threads for."""
    run = cluster.submit(job(head))
    says(head, "squeue", RUNNING)

    async def all_of_them() -> list[running.Result]:
        waiting = asyncio.gather(*(run.wait_async(timeout_s=60) for _ in range(40)))
        await asyncio.sleep(0.1)
        says(head, "squeue.new", FORGOTTEN)
        ends(head, exit_code=0)
        os.replace(head / "bin" / "squeue.new", head / "bin" / "squeue")
        return await waiting

    assert [each.state for each in asyncio.run(all_of_them())] == ["COMPLETED"] * 40


AWAY = "echo 'slurm_load_jobs error: Unable to contact slurm controller (connect failure)' >&2; exit 1"


class Breaking(InProcessRemote):
    """AWS ends the tunnel during two commands, and Slurm's controller comes back between them."""

    def __init__(self, back: Callable[[], None]) -> None:
        self.asked, self.back = 0, back

    def run(self, argv: Sequence[str], **more: Any) -> Completed:
        self.asked += 1
        if self.asked == 4:
            self.back()
        if self.asked in (3, 6):
            raise RemoteError("the connection to the head node broke")
        return super().run(argv, **more)


@pytest.mark.parametrize("is_async", [False, True])
def test_waiting_outlasts_a_head_node_that_does_not_answer(
    head: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, is_async: bool
) -> None:
    monkeypatch.setattr(patience, "FIRST_PAUSE_S", 0.01)
    submitted, messages = cluster.submit(job(head)), []
    says(head, "squeue", AWAY)
    ends(head, exit_code=0)
    run = running.Run(submitted.job_id, Breaking(lambda: says(head, "squeue", FORGOTTEN)))
    found = asyncio.run(run.wait_async(60, messages.append)) if is_async else run.wait(60, messages.append)
    assert found.succeeded
    assert "Unable to contact slurm controller" in messages[0]
    assert messages[1].startswith("the connection to the head node broke")
    assert messages[-1] == "the head node answers again"


@pytest.mark.parametrize("is_async", [False, True])
def test_a_head_node_that_stays_away_is_waited_for_until_the_timeout(
    head: Path, cluster: Cluster, is_async: bool
) -> None:
    run = cluster.submit(job(head))
    says(head, "squeue", AWAY)
    with pytest.raises(TimeoutError, match="whether job 42 has ended is not known: .*Unable to contact"):
        asyncio.run(run.wait_async(0.05)) if is_async else run.wait(0.05)


def test_waiting_does_not_outlast_a_cluster_that_is_gone(head: Path, cluster: Cluster) -> None:
    class Gone(InProcessRemote):
        def run(self, argv: Sequence[str], **more: Any) -> Completed:
            raise NotDeployedError("there is no cluster Test")

    run = running.Run(cluster.submit(job(head)).job_id, Gone())
    with pytest.raises(NotDeployedError):
        run.wait(timeout_s=60)


def test_keys_win_over_the_file(head: Path, cluster: Cluster) -> None:
    (head / "job.yaml").write_text("command: [python, train.py]\nnodes: 4\nname: digits\n")
    run = cluster.submit(Job.from_file(head / "job.yaml", nodes=2))
    assert "--nodes=2" in (Path(run.folder) / "job.sbatch").read_text()


def test_warnings_reach_the_caller(head: Path, cluster: Cluster) -> None:
    (head / "out").symlink_to("/etc")
    messages: list[str] = []
    cluster.submit(job(head, env={"HF_TOKEN": "x"}), tell=messages.append)
    warned = [line for line in messages if line.startswith("warning: ")]
    link = "the link out -> /etc points outside the workdir"
    assert [line.split(": ")[1] for line in warned] == ["--env HF_TOKEN", link]


def test_errors_are_raised_before_anything_is_sent(head: Path, cluster: Cluster) -> None:
    with pytest.raises(JobSpecError, match="max_nodes"):
        cluster.submit(job(head, nodes=9))
    with pytest.raises(JobSpecError, match="did you mean 'nodes'"):
        cluster.submit(job(head, node=1))
    with pytest.raises(UsageError, match="there is no job 7"):
        cluster.run(7)
    assert not (head / "jobs").exists()


def test_the_api_is_imported_when_it_is_asked_for() -> None:
    assert gpucluster.Cluster is Cluster and gpucluster.Job is Job
    with pytest.raises(AttributeError, match="no attribute 'Clusters'"):
        _ = gpucluster.Clusters  # type: ignore[attr-defined]


ELEMENTS = "".join(f"42_{index}|COMPLETED|train|1|train-1|0:04|UNLIMITED|x|x|digits|None\n" for index in range(2))


def test_the_elements_of_a_sweep_are_reached(head: Path, cluster: Cluster) -> None:
    run = cluster.submit(job(head, sweep={"lr": ["0.1", "0.01"]}))
    for index in range(2):
        folder = head / "jobs" / "by-id" / "42" / str(index)
        metrics = {"loss": {"last": 0.5 + index, "values": [1.0, 0.5 + index]}}
        (folder / "result.json").write_text(json.dumps({"exit_code": index, "reason": "boom", "metrics": metrics}))
        (folder / "log.txt").write_text(f"log of {index}\n")
    found = run.elements()
    assert [(each.job_id, each.parameters, each.state, each.metrics) for each in found] == [
        ("42_0", {"lr": "0.1"}, "completed", {"loss": 0.5}),
        ("42_1", {"lr": "0.01"}, "failed", {"loss": 1.5}),
    ]
    second = cluster.run(found[1].job_id)
    assert (second.log(), second.state, second.folder) == ("log of 1\n", "FAILED", str(Path(run.folder) / "1"))
    result = second.wait(timeout_s=5)
    assert (result.state, result.metrics["loss"]["values"]) == ("FAILED", [1.0, 1.5])
    with pytest.raises(UsageError, match="job 42 has a log for each element"):
        run.logs()
    with pytest.raises(UsageError, match="job 42_1 is one element: ask job 42 for all"):
        second.elements()


@pytest.mark.parametrize("job_id", ["36_", "_0", "36_0_1", "all", "", "-1", 3.0, "٣"])
def test_what_is_no_job_id_is_refused(cluster: Cluster, job_id: object) -> None:
    with pytest.raises(UsageError, match=r"is not a job ID such as 12, or 12_3 for an element of an array"):
        cluster.run(job_id)  # type: ignore[arg-type]


def test_elements_of_a_job_that_has_none(head: Path, cluster: Cluster) -> None:
    run = cluster.submit(job(head))
    with pytest.raises(UsageError, match="job 42 is not an array or a sweep"):
        run.elements()
