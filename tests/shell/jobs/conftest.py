"""Fixtures that several files of this folder share."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from stubbed_jobs import finished, prepare


@pytest.fixture
def run_job(tmp_path: Path):
    """run_job(**keys of the spec) -> (exit code, result, log, folder) of a job on two nodes with two ranks each."""

    def start(secret=None, **keys):
        job = prepare(tmp_path, secret or {}, keys)
        process = subprocess.run(**job, timeout=60, check=False)
        return finished(process.returncode, tmp_path / "job")

    return start
