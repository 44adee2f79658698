"""Chained jobs in a real Slurm: examples/pipeline as users submit it, and a job after one that fails."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from bed import ROOT, Bed


@pytest.fixture
def example(tmp_path: Path) -> Path:
    return Path(shutil.copytree(ROOT / "examples" / "pipeline", tmp_path / "pipeline"))


def submit(cluster: Bed, example: Path, *words: str) -> tuple[list[dict[str, Any]], subprocess.CompletedProcess[str]]:
    done = cluster.gpucluster("submit", str(example / "pipeline.yaml"), *words, timeout_s=400)
    assert done.returncode == 0, done.stderr + done.stdout
    jobs: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])["jobs"]
    return jobs, done


def hows(jobs: list[dict[str, Any]]) -> list[str]:
    return [job["how"] for job in jobs]


def test_a_pipeline_runs_and_a_changed_job_runs_again_with_its_successors(cluster: Bed, example: Path) -> None:
    first, done = submit(cluster, example, "--follow")
    assert hows(first) == ["submitted"] * 3
    assert "2 files, 957 bytes, to /home/ubuntu/inputs/" in done.stderr
    (said,) = [line for line in done.stdout.splitlines() if '"slope"' in line]
    fit = json.loads(said.partition("] ")[2])
    assert (fit["pairs"], fit["loss"] < 0.01) == (64, True)

    again, done = submit(cluster, example)
    assert [(job["job_id"], job["how"]) for job in again] == [(job["job_id"], "skipped") for job in first]
    assert "already on the cluster" in done.stderr

    program = example / "train" / "train.py"
    program.write_text(program.read_text().replace("lr=0.3", "lr=0.2"))
    edited, _ = submit(cluster, example, "--follow")
    assert hows(edited) == ["skipped", "submitted", "submitted"]


def test_a_job_whose_predecessor_fails_ends_and_names_it(cluster: Bed, tmp_path: Path) -> None:
    one = ("--gpus-per-node", "1", "--launcher", "srun", "--workdir", str(tmp_path), "--project", "broken")
    gate = "/home/ubuntu/fails-now"
    fails = f"until [ -e {gate} ]; do sleep 0.2; done; echo no data >&2; exit 1"
    before = cluster.submit(*one, "--name", "prepare", "--outputs", "shards", "--", "bash", "-c", fails)
    read = ("--channel", "data=task:prepare,output=shards")
    after = cluster.submit(*one, "--name", "train", *read, "--", "python", "-c", "pass")
    number = before.last["job_id"]
    assert f"waits for the task broken/prepare, job {number}" in after.told
    why = cluster.gpucluster("why", after.last["job_id"]).stdout
    assert f"it waits for the task broken/prepare: job {number} " in why
    cluster.ssh("touch", gate)
    followed = cluster.gpucluster("logs", "-f", after.last["job_id"], timeout_s=200)
    assert followed.returncode == 4
    assert f"was cancelled: the task broken/prepare failed, which it waited for: job {number} failed: rank 0" in (
        followed.stderr
    )
    refused = cluster.gpucluster("submit", *one, "--name", "train", *read, "--", "python", "-c", "pass")
    assert f"the task broken/prepare has not succeeded: job {number} failed" in refused.stderr
    assert "submit it again first" in refused.stderr
