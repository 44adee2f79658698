"""How long a job waits for its data, on booted nodes: `bench --feed` measures it, `why` says it while the job runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from bed import Bed, wait_for

PROGRAM = """
import time, types
from gpucluster_train import channel
from gpucluster_train.feed import Feed

class Loader:
    def __iter__(self):
        for place in channel("train").shards() * 10:
            with open(place, "rb") as shard:
                shard.read()
            time.sleep(0.03)
            yield types.SimpleNamespace(shape=(8,))

feed = Feed(Loader())
for epoch in range(200):
    for batch in feed:
        time.sleep(0.01)
    print(feed.report(), flush=True)
"""
JOB = """
command: [python, train.py]
launcher: srun
gpus_per_node: 2
exclusive: false
channels: {train: ./data}
"""


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder: Path = tmp_path_factory.mktemp("feed")
    (folder / "data").mkdir()
    for number in range(4):
        (folder / "data" / f"{number}.tar").write_bytes(bytes(200_000))
    (folder / "train.py").write_text(PROGRAM)
    (folder / "job.yaml").write_text(JOB)
    return str(folder / "job.yaml")


def test_bench_feed_says_that_the_loader_limits(cluster: Bed, job: str) -> None:
    done = cluster.gpucluster("bench", "--feed", job, timeout_s=400)
    assert done.returncode == 0, done.stderr
    assert "from cold files | both" in done.stdout and "the training limits" not in done.stdout
    (found,) = json.loads(done.stdout.splitlines()[-1])["settings"]
    assert found["unit"] == "samples" and found["loader_per_s"] < found["training_per_s"]
    assert found["both_per_s"] < found["training_per_s"]


def test_why_says_how_long_a_running_job_has_waited(cluster: Bed, job: str) -> None:
    job_id = cluster.submit(job).last["job_id"]

    def waited() -> str:
        lines = cluster.gpucluster("why", job_id).stdout.splitlines()
        return next((line for line in lines if "of the time for data" in line), "")

    said = wait_for("what its ranks have counted", waited, 120)
    assert said.startswith("its ranks waited ") and "`gpucluster bench --feed`" in said
    assert cluster.gpucluster("cancel", job_id).returncode == 0
