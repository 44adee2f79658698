"""One program measures what a GPU trains and decodes (tests/gpu/speed.py), and prints it beside published figures.

It passes whatever the figures are, if every part ran: a figure below what is wanted is for a person to judge.
`GPU_RECORDS=DIR` keeps what it printed, as `speed.txt`.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from gpu.conftest import ROOT, torch_python

from bench import photos

IMAGES = 8_192
"""1 GB, which is 32 steps of an epoch."""


@pytest.mark.timeout(900)
def test_figures_of_one_gpu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    python = torch_python("PIL")
    photos.write(tmp_path / "photos", IMAGES)
    photos.pack(tmp_path / "photos", tmp_path / "shards", 16)
    photos.job(tmp_path / "job", {"train": tmp_path / "shards", "val": tmp_path / "shards"})
    argv = [python, str(ROOT / "tests/gpu/speed.py"), str(tmp_path / "job")]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    with capsys.disabled():
        print(f"\n{done.stdout.rpartition('[')[0]}")
    if folder := os.environ.get("GPU_RECORDS"):
        Path(folder, "speed.txt").write_text(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
