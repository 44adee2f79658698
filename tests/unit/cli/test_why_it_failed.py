"""`why` of a failed job: which lines of its log it shows."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from gpucluster import account
from gpucluster.following import explain
from localcloud.testing.recorded import record
from tests.in_process import InProcessRemote

RANK = ["Traceback (most recent call last):", '  File "train.py", line 7, in <module>', "ValueError: no data"]
REPORT = [f"[launcher] {line}" for line in record("torchrun/childfailed-sigkill.txt").splitlines()]
RESULT = {"exit_code": 1, "failed_rank": 1, "failed_node": "train-2", "reason": "ValueError: no data"}


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The story of the failed job 7 on this machine."""
    folder = tmp_path / "jobs/by-id/7"
    folder.mkdir(parents=True)
    (folder / "result.json").write_text(json.dumps(RESULT))
    squeue = tmp_path / "bin/squeue"
    squeue.parent.mkdir()
    squeue.write_text("#!/bin/sh\necho '7|FAILED|train|2|train-[1-2]|0:04|UNLIMITED|x|x|raise|None'\n")
    squeue.chmod(0o755)
    monkeypatch.setenv("PATH", f"{squeue.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(account, "home", lambda: str(tmp_path))
    return folder / "log.txt"


def test_the_failed_ranks_own_lines_although_torchrun_reports_after_them(log: Path) -> None:
    own = [f"[1 train-2] {line}" for line in RANK]
    log.write_text("\n".join(["[0 train-1] step 1", *own, "[11 train-2] step 1", *REPORT]) + "\n")
    assert explain.of(InProcessRemote(), None, "7").lines == [
        "job 7 failed: rank 1 on train-2 exited with code 1: ValueError: no data",
        "the last lines of rank 1:",
        *(f"  {line}" for line in own),
    ]


def test_the_end_of_the_log_if_the_rank_printed_nothing(log: Path) -> None:
    log.write_text("\n".join(REPORT) + "\n")
    assert explain.of(InProcessRemote(), None, "7").lines[1:] == [
        "the end of its log:",
        *(f"  {line}" for line in REPORT[-15:]),
    ]
