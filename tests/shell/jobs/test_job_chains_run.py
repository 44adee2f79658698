"""Runs two chained jobs: examples/pipeline writes its output, and the ranks of the next job share it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from stubbed_jobs import finished, prepare

from gpucluster import account

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "examples" / "pipeline"
READ = 'echo "read $RANK: $(cat $GPUCLUSTER_CHANNEL_DATA)"'


@pytest.fixture(autouse=True)
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(account, "home", lambda: str(tmp_path))
    monkeypatch.setattr("gpucluster.job.channels.not_shared", lambda path, config: None)
    return tmp_path


def run(place: Path, **keys: object) -> tuple[int, str]:
    place.mkdir()
    done = subprocess.run(**prepare(place, {}, keys), timeout=60, check=False)
    code, _, log, _ = finished(done.returncode, place / "job")
    return code, log


def test_ranks_share_the_output_of_the_job_before(shared: Path) -> None:
    one = {"ntasks_per_node": 1, "launcher": "srun", "project": "line", "name": "prepare"}
    raw = {"raw": {"source": str(EXAMPLE / "raw"), "shard": "none"}}
    command = ("python", str(EXAMPLE / "prepare" / "prepare.py"))
    code, log = run(shared / "first", **one, command=command, channels=raw, outputs=["shards"])
    assert code == 0, log
    assert "64 pairs in 4 shards" in log
    folder = shared / "tasks/line/prepare/outputs/shards"
    assert sum(len(json.loads(path.read_text())) for path in folder.iterdir()) == 64

    data = {"data": {"task": "prepare", "output": "shards"}}
    code, log = run(shared / "second", command=("bash", "-c", READ), project="line", name="train", channels=data)
    assert code == 0, log
    assert sorted(line.rpartition(" ")[2] for line in log.splitlines() if "read " in line) == sorted(
        str(path) for path in folder.iterdir()
    )


def test_an_output_that_cannot_be_made_ends_the_job_before_its_command(run_job, shared: Path) -> None:
    (shared / "file").touch()
    code, result, log, _ = run_job(command=("true",), name="prepare", outputs={"shards": str(shared / "file" / "x")})
    assert code == 1
    assert result["reason"] == f"the output shards: {shared}/file/x: Not a directory"
