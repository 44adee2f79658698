"""What `gpucluster why` says about the time in which a job's ranks waited for data."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from gpucluster import account
from gpucluster.following import data_wait, why
from gpucluster.following.jobs import Ending
from gpucluster.head.queue import parse_jobs
from tests.in_process import InProcessRemote

ROOT = Path(__file__).parents[3]
REMEDY = "`gpucluster bench --feed` measures whether the loader or the storage limits"


def counted(percent: float, most: float, ranks: int = 8) -> dict[str, Any]:
    rank = {"most_percent": most, "most_rank": 3, "most_node": "train-2"}
    return {"exit_code": 0, "data_wait": {"percent": percent, "ranks": ranks, **rank}}


def said(result: dict[str, Any], state: str = "COMPLETED") -> list[str]:
    return list(why.ended("7", Ending(state, result), []))[1:]


@pytest.mark.parametrize(
    ("result", "lines"),
    [
        ({"exit_code": 0}, []),
        (counted(2.4, 3.1), ["its ranks waited 2 % of the time for data"]),
        (counted(38.2, 42.0), [f"its ranks waited 38 % of the time for data: {REMEDY}"]),
        (
            counted(38.2, 61.0),
            [f"its ranks waited 38 % of the time for data (rank 3 on train-2 most, 61 %): {REMEDY}"],
        ),
        (
            counted(9.0, 61.0),
            [
                f"its ranks waited 9 % of the time for data (rank 3 on train-2 most, 61 %): {REMEDY}",
                "the other ranks wait for rank 3 on train-2 in every step: look at the disks and the load of its node "
                "first",
            ],
        ),
        (counted(61.0, 61.0, ranks=1), [f"its ranks waited 61 % of the time for data: {REMEDY}"]),
        (
            {"exit_code": 0, "metrics": {"data_wait": {"median": 38.0}}},
            [f"its ranks waited 38 % of the time for data: {REMEDY}"],
        ),
        ({"exit_code": 0, "metrics": {"data_wait": {"median": None}}}, []),
        ({"exit_code": 0, "metrics": None}, []),
    ],
)
def test_why_of_an_ended_job(result: dict[str, Any], lines: list[str]) -> None:
    assert said(result) == lines


def test_a_failed_job_tells_it_only_if_it_is_worth_a_remedy() -> None:
    assert said(counted(2.4, 3.1), "TIMEOUT") == []
    assert len(said(counted(38.2, 42.0), "TIMEOUT")) == 1


def test_why_of_a_running_job_reads_what_its_ranks_have_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(account, "home", lambda: str(tmp_path))
    folder = tmp_path / "jobs" / "by-id" / "7"
    for run, waited in (("run-9", 9.0), ("run-10", 38.0)):  # it was requeued
        (folder / "feeds" / run).mkdir(parents=True)
        counts = {"rank": 0, "node": "train-1", "waited_s": waited, "seconds": 100.0}
        (folder / "feeds" / run / "0.json").write_text(json.dumps(counts))
    row = "7|{}|train|1|train-1|0:10|1:00:00|2026-11-28T12:00:00|N/A|work|None\n"
    (running,), (pending,) = (parse_jobs(row.format(state)) for state in ("RUNNING", "PENDING"))
    assert data_wait.so_far(InProcessRemote(), running) == []  # a job of an older version lacks the program
    shutil.copytree(ROOT / "gpucluster_job", folder / "lib" / "gpucluster_job")
    assert data_wait.so_far(InProcessRemote(), running) == [f"its ranks waited 38 % of the time for data: {REMEDY}"]
    assert data_wait.so_far(InProcessRemote(), pending) == []
