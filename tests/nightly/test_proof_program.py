"""`make test-aws`, whole, against the local cloud: every stage, the report, and nothing left."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from bed import ROOT, Bed

SUBJECTS = ["examples/proof/*"]
COVERED_BY = "test_proof.py: its stages' cluster files and prices, its report and its end"
STAGES = ("single", "horovod", "fsx", "efa", "p4d", "p5")


@pytest.mark.timeout(1600)
def test_every_stage_passes_and_leaves_nothing(empty_cloud: Bed, tmp_path: Path) -> None:
    report = tmp_path / "report.md"
    argv = [sys.executable, "examples/proof", "--yes", "--stages", ",".join(STAGES)]
    done = subprocess.run(
        [*argv, "--local", str(empty_cloud.port), "--report", str(report)],
        cwd=ROOT,
        env={**os.environ, **empty_cloud.environment()},
        capture_output=True,
        text=True,
        check=False,
        timeout=1500,
    )
    text = report.read_text()
    assert done.returncode == 0, text + done.stdout[-4000:] + done.stderr[-2000:]
    assert text.startswith("# GpuCluster proof: passed\n")
    assert "Left over: nothing" in text and "FAILED" not in text
    for stage in STAGES:
        assert f"| {stage} | gpucluster up | passed |" in text
    assert "| efa | NCCL's network | not exercised |" in text, "there is no GPU here, and the report must say so"
    assert "--- uname -r" in text
