"""`gpucluster jobs` and `status` where thousands of jobs have ended."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from gpucluster import account
from gpucluster.cli import jobs as verb
from gpucluster.cli import status
from gpucluster.following import jobs
from gpucluster.head import slurm
from gpucluster.head.remote import Completed
from tests.in_process import InProcessRemote

ENDED = 5000
# as squeue printed them on Slurm 24.11.5, in the format of slurm.squeue_argv()
LINE = "{}|{}|train|1|{}|0:04|UNLIMITED|2026-11-23T06:00:00|2026-11-23T06:01:00|digits|None\n"


class Head(InProcessRemote):
    """Counts what comes over the connection."""

    received = 0

    def run(self, argv: Sequence[str], **given) -> Completed:
        done = super().run(argv, **given)
        self.received += len(done.stdout)
        return done


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for all jobs that completed, one for all that failed, one for those that have not ended."""
    place = tmp_path_factory.mktemp("jobs")
    (place / "by-id").mkdir()
    for number, name in enumerate(("completed", "failed", "running")):
        (place / f"{name}-20261123-060000-abcd").mkdir()
        result = {"exit_code": number, "nodes": 1, "node_list": ["train-1"], "reason": "boom" * number}
        if name != "running":
            text = json.dumps(result | {"metrics": {"loss": {"values": [0.5] * 100}}})
            (place / f"{name}-20261123-060000-abcd" / "result.json").write_text(text)
    for number in range(1, ENDED + 4):
        name = "running" if number in (1, 5002, 5003) else "failed" if number % 2 else "completed"
        os.symlink(f"../{name}-20261123-060000-abcd", place / "by-id" / str(number))
    return place


@pytest.fixture
def head(folders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Head:
    """Job 1 runs all the time, the last two wait; those between have ended. Slurm still knows half of these."""
    monkeypatch.setattr(account, "jobs", lambda: str(folders))
    lines = [LINE.format(1, "RUNNING", "train-1"), *(LINE.format(number, "PENDING", "") for number in (5002, 5003))]
    lines += [LINE.format(n, "FAILED" if n % 2 else "COMPLETED", "train-1") for n in range(2500, ENDED + 2)]
    (tmp_path / "queue").write_text("".join(lines))
    (tmp_path / "squeue").write_text(f"#!/bin/sh\ncat {tmp_path}/queue\n")
    (tmp_path / "squeue").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return Head()


def test_the_newest_that_ended_and_all_that_have_not(head: Head) -> None:
    rows = verb.shown(head, 20)
    assert [int(row["job_id"]) for row in rows] == [1, *range(4982, 5004)]
    assert [row["state"] for row in rows][:3] == ["RUNNING", "COMPLETED", "FAILED"]
    assert {row["reason"] for row in rows if row["state"] == "FAILED"} == {"boom"}
    assert rows[0]["folder"].endswith("/running-20261123-060000-abcd")
    assert head.received < 10_000, "the head node sends what is shown"


def test_more_where_more_are_asked_for(head: Head) -> None:
    assert len(verb.shown(head, 10_000)) == ENDED + 3
    assert [row["job_id"] for row in verb.shown(head, 0)] == ["1", "5002", "5003"]


def test_the_status_has_no_ended_jobs(head: Head, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm, "scontrol_ping_argv", lambda: ["echo", "Slurmctld(primary) at head is UP"])
    monkeypatch.setattr(slurm, "sinfo_argv", lambda *_: ["true"])
    assert [job["job_id"] for job in status.on_head(head)["jobs"]] == ["1", "5002", "5003"]
    assert head.received < 1000


def test_an_array_has_ended_when_all_its_elements_have(head: Head, tmp_path: Path) -> None:
    both = [LINE.format(f"7_{n}", state, "train-1") for n, state in enumerate(("COMPLETED", "RUNNING"))]
    ended = [LINE.format(f"8_{n}", "COMPLETED", "train-1") for n in range(2)] + [
        LINE.format("9+0", "FAILED", "train-1")
    ]
    (tmp_path / "queue").write_text("".join([*both, *ended]))
    assert [(job.job_id, len(job.elements)) for job in jobs.current(head)] == [("7", 2)]
    assert [job.job_id for job in jobs.current(head, 1)] == ["7", "9"]
    assert [job.job_id for job in jobs.current(head, also=["8"])] == ["7", "8"]


def test_an_error_of_squeue_is_not_an_empty_list(head: Head, tmp_path: Path) -> None:
    (tmp_path / "squeue").write_text("#!/bin/sh\necho 'slurm_load_jobs error: Unable to contact' >&2; exit 1\n")
    with pytest.raises(Exception, match="cannot list jobs: exit code 1: slurm_load_jobs error"):
        jobs.current(head)
