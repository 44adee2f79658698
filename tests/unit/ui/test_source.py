"""What the page reads on the head node: job folders as `submit` makes them, and as their users change them."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpucluster import account
from gpucluster.cli.jobs import merged
from gpucluster.config import loads
from gpucluster.errors import GpuClusterError, UsageError
from gpucluster.following import jobs
from gpucluster.following.cost import JobCost
from gpucluster.following.logs import Selection
from gpucluster.following.overview import JobRow
from gpucluster.layout import expand
from gpucluster.ui.cluster import LONGEST, ClusterSource, counts, past_of, row_of
from gpucluster_job import elements
from tests.in_process import InProcessRemote

CONFIG = """
name: digits
region: us-east-1
partitions: [{name: train, instance_types: [g5.12xlarge], max_nodes: 4}]
"""
TIMES = {"started_at": "2026-11-29T08:00:00Z", "ended_at": "2026-11-29T09:30:00Z"}
RESULT = {"exit_code": 0, "nodes": 2, "world_size": 8, "node_list": ["train-1", "train-2"], **TIMES}
PROGRAMS = {
    "squeue": "exit 0",
    "sinfo": "echo 'train-1|train|idle|Unknown|none'",
    "scontrol": "exit 0",
    "sacct": "echo 'Slurm accounting storage is disabled' >&2; exit 1",
}


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ClusterSource:
    for name, text in PROGRAMS.items():
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    monkeypatch.setattr(account, "home", lambda: str(tmp_path))
    (tmp_path / "jobs" / "by-id").mkdir(parents=True)
    return ClusterSource(expand(loads(CONFIG)), InProcessRemote())


def submitted(home: Path, job_id: str, name: str = "digits", result: Any = None) -> Path:
    folder = home / "jobs" / f"{name}-20261129-080000-a1b2"
    (folder / "code" / "data").mkdir(parents=True)
    (folder / "job.sbatch").write_text(f"#!/bin/bash\n#SBATCH --job-name={name}\n")
    (folder / "job.yaml").write_text("nodes: 2\n")
    (folder / "log.txt").write_text("[0 train-1] first\n[1 train-2] second\n")
    (folder / "code" / "train.py").write_text("print('<b>')\n")
    (folder / "code" / "data" / "a b?.py").write_text("x\n")
    if result is not None:
        (folder / "result.json").write_text(result if isinstance(result, str) else json.dumps(result))
    (home / "jobs" / "by-id" / job_id).symlink_to(folder)
    return folder


def test_an_ended_job_without_accounting(source: ClusterSource, tmp_path: Path) -> None:
    submitted(tmp_path, "7", result=RESULT)
    found = source.job("7")
    assert (found.row.state, found.row.name, found.row.nodes, found.ranks) == ("COMPLETED", "digits", 2, 8)
    assert found.node_list == ("train-1", "train-2")
    assert (found.row.ended_s or 0) - (found.row.started_s or 0) == 5400
    (row,) = source.history()
    assert row == found.row
    assert list(source.log("7", Selection(tail=1))) == ["[1 train-2] second"]


@pytest.mark.parametrize(
    "result",
    [
        "",
        "{",
        "[]",
        "[" * 100_000,
        {"exit_code": "0"},
        {"exit_code": 0},
        {**RESULT, "elements": 5},
        {**RESULT, "nodes": "x", "world_size": [], "node_list": 3, "started_at": 5},
        {**RESULT, "node_list": [1, None]},
    ],
    ids=range(9),
)
def test_a_result_that_its_user_has_written(source: ClusterSource, tmp_path: Path, result: Any) -> None:
    """The page shows it or says why not: nothing else is raised. It hides no other job."""
    submitted(tmp_path, "7", result=result)
    submitted(tmp_path, "8", name="other", result=RESULT)
    with suppress(GpuClusterError):
        source.job("7")
    assert [row.job_id for row in source.history()] == ["8", "7"]
    assert merged([], jobs.past(source.remote))[1]["state"] == "COMPLETED"
    assert source.results(["7", "8"])["8"]["world_size"] == 8


def test_script_and_code(source: ClusterSource, tmp_path: Path) -> None:
    folder = submitted(tmp_path, "7")
    (folder / "code" / "line\nbreak.py").write_text("x")
    found = source.script("7")
    assert (found.sbatch, found.spec) == ("#!/bin/bash\n#SBATCH --job-name=digits\n", "nodes: 2\n")
    assert found.code == ("data/a b?.py", "train.py")
    assert source.code("7", "data/a b?.py") == "x\n"
    (folder / "code" / "large.txt").write_text("x" * (LONGEST + 10))
    assert len(source.code("7", "large.txt")) == LONGEST


@pytest.mark.parametrize(
    "path", ["../job.yaml", "secret", "folder/secret", "/etc/passwd", "", ".", "data", "$(id)", "-n", "pipe"]
)
def test_code_is_no_way_to_other_files(source: ClusterSource, tmp_path: Path, path: str) -> None:
    folder = submitted(tmp_path, "7")
    (tmp_path / "secret").write_text("secret")
    (folder / "code" / "secret").symlink_to(tmp_path / "secret")
    (folder / "code" / "folder").symlink_to(tmp_path)
    os.mkfifo(folder / "code" / "pipe")
    with pytest.raises(GpuClusterError, match="cannot read"):
        source.code("7", path)
    assert "secret" not in source.script("7").code


def test_a_job_that_does_not_exist(source: ClusterSource) -> None:
    with pytest.raises(UsageError, match="there is no job 9"):
        source.job("9")


LIVE = JobRow("7", "live", "ann", "RUNNING", 2, "train-[1-2]", 60.0, "", 11.3)
PAID = JobCost("7", "paid", "bob", "train", "TIMEOUT", 12.5, 0.0, 0.0, 0.0, 1.0)
PAST = jobs.Past("7", "/home/bob/jobs/past-20261129-080000-a1b2", dict(RESULT))


def test_who_knows_best() -> None:
    """Slurm's queue of a job that runs; accounting of how it ended; the folder of exports that failed."""
    assert (row := row_of("7", LIVE, PAST, PAID)).state == "RUNNING" and row.user == "ann" and row.ended_s is None
    assert (row := row_of("7", None, PAST, PAID)).state == "TIMEOUT" and (row.name, row.usd) == ("past", 12.5)
    assert row_of("7", None, None, PAID).name == "paid"
    assert row_of("7", None, PAST, replace(PAID, state="RUNNING")).state == "COMPLETED", "read a minute ago"
    completed = JobCost("7", "paid", "bob", "train", "COMPLETED", 12.5, 0.0, 0.0, 0.0, 1.0)
    failed = jobs.Past("7", PAST.folder, {**RESULT, "exit_code": 1, "reason": "could not export"})
    assert (row := row_of("7", None, failed, completed)).state == "FAILED" and "export" in row.reason
    assert row_of("7", None, jobs.Past("7", PAST.folder, None), completed).state == "COMPLETED"


def test_an_ended_sweep_has_its_counts_of_elements() -> None:
    result = {"exit_code": 1, "elements": {"completed": 11, "failed": 1, "cancelled": 0}, "first_failed": None}
    assert elements.summary([]).keys() == result.keys(), "what a job's folder answers for an array"
    assert row_of("7", None, past_of("7", PAST.folder, result), None).state == "FAILED"
    assert counts(result) == {"completed": 11, "failed": 1} and counts(None) == {}
