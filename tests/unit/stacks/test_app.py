"""app.py, as the CDK command line runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_mistakes_in_the_file_are_reported_without_a_traceback(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text("name: a\nregion: us-east-1\npartitions: []\n")
    environment = {**os.environ, "GPUCLUSTER_CONFIG": str(file)}
    ran = subprocess.run(
        [sys.executable, "app.py"], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 1
    assert ran.stderr.startswith(f"{file}:3:13: error: partitions: must have at least one entry")
