"""Why an array of packing jobs failed, in one line."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from gpucluster.data.packing import Bad
from gpucluster.data.reasons import main, reason
from gpucluster.data.run import MOST_FILES_SHOWN, _refusal
from gpucluster.submission.shard_array import _library

ROOT = Path(__file__).resolve().parents[3]


def refused(*names: str) -> str:
    """As a part prints it."""
    return "reading s3://mine/raw\n" + _refusal("s3://mine/raw", [Bad(name, "not an image") for name in names]).render()


def test_the_files_of_all_parts_are_counted_and_named() -> None:
    assert reason([refused("a.jpg", "b.jpg"), "fine\n", refused("c.jpg")]) == (
        "s3://mine/raw: 3 files cannot be packed: a.jpg: not an image; b.jpg: not an image; c.jpg: not an image"
    )
    many = [f"{number}.jpg" for number in range(MOST_FILES_SHOWN + 2)]
    said = reason([refused(*many)])
    assert said.startswith("s3://mine/raw: 12 files cannot be packed: 0.jpg: not an image; ")
    assert said.endswith("; and 2 more")


def test_other_errors_are_said_once_with_all_their_lines() -> None:
    lost = "error: s3://mine/raw: access denied:\n  GetObject\n  HeadObject\nhint: add it to s3_access\n"
    assert reason([lost, lost, "error: no space left\n"]) == (
        "s3://mine/raw: access denied: GetObject; HeadObject; no space left"
    )
    assert reason(["", "fine\n"]) == ""


def test_without_an_error_of_ours_the_last_line_is_the_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "finish.txt").write_text("Traceback (most recent call last):\n  File x\nMemoryError\n\n")
    assert main([str(tmp_path / "plan.txt"), str(tmp_path / "finish.txt")]) == 0
    assert capsys.readouterr().out == "MemoryError\n"


@pytest.mark.parametrize("parts", [True, False])
def test_the_result_of_the_last_job_has_the_reason(tmp_path: Path, parts: bool) -> None:
    """Shards that are missing are explained by the parts that did not make them."""
    for name, file in _library().items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(file.text)
    (tmp_path / "lib" / "gpucluster" / "data" / "__main__.py").write_text(
        "import sys\nprint('error: 2 shards are missing', file=sys.stderr)\nsys.exit(1)\n"
    )
    for name, text in {"environment.sh": "", "planned": "", "plan.txt": "planned\n"}.items():
        (tmp_path / name).write_text(text)
    for number in (1, 2):
        (tmp_path / f"part-{number}.txt").write_text(refused(f"{number}.jpg") if parts else "fine\n")
    script = ["bash", str(ROOT / "templates" / "job" / "shard.sbatch"), str(tmp_path), "finish"]
    environment = {**os.environ, "SLURM_JOB_ID": "9"}
    done = subprocess.run(script, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    said = "s3://mine/raw: 2 files cannot be packed: 1.jpg: not an image; 2.jpg: not an image"
    expected = said if parts else "2 shards are missing"
    assert json.loads((tmp_path / "result.json").read_text())["reason"] == expected
