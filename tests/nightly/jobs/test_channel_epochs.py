"""Ranks share a data set in each epoch, and continue with the same shares after a restart."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from bed import Bed, wait_for
from test_channels import BUCKET, SAMPLES, SHARDS, put_images
from test_launchers import PROGRAMS

SUBJECTS = [
    "gpucluster_train/*",
    "gpucluster*job/*",
    "gpucluster/job_keys.py",
    "templates/job/*",
    "tests/cluster/programs/channel_epochs.py",
]
COVERED_BY = (
    "test_job_channels_run.py: a job that runs again continues with the same shards; test_shard_assignment.py; "
    "streams and copies, booted, in test_channels.py"
)
RANKS, EPOCHS = 4, 3


@pytest.fixture(scope="module")
def images(storage: Bed, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return put_images(storage, tmp_path_factory.getbasetemp() / "images-of-channels")


def reads(storage: Bed, pattern: str) -> dict[tuple[str, ...], list[str]]:
    """What the ranks have left at S3: by the numbers in the objects' names."""
    s3, found = storage.client("s3"), {}
    for each in s3.list_objects_v2(Bucket=BUCKET, Prefix=f"results/channels/{pattern}-").get("Contents", []):
        body = s3.get_object(Bucket=BUCKET, Key=each["Key"])["Body"].read()
        found[tuple(Path(each["Key"]).stem.split("-")[1:])] = json.loads(body)
    return found


def test_ranks_share_a_data_set_epoch_by_epoch_and_after_a_restart(
    storage: Bed, images: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "of-both-runs")
    storage.ssh("mkdir", "-p", "/fsx/results/channels")
    there = "test -e /fsx/data/channels/train/manifest.json && echo yes || true"
    wait_for("the data set on /fsx", lambda: storage.ssh("sh", "-c", there), 60)
    (tmp_path / "job.yaml").write_text(
        "command: [bash, -c, 'exec python channel_epochs.py /fsx/results/channels ${TOKEN:?}']\n"
        "secrets: [TOKEN]\nlauncher: srun\nnodes: 2\ngpus_per_node: 2\n"
        f"time: 20m\nworkdir: {PROGRAMS}\nchannels: {{train: {{source: /fsx/data/channels/train}}}}\n"
        "exports: [/fsx/results/channels]\n"
    )
    job = storage.submit(str(tmp_path / "job.yaml"))
    job_id, folder = job.last["job_id"], job.last["folder"]

    def log() -> str:
        return storage.ssh("cat", f"{folder}/log.txt")

    try:
        wait_for("all ranks in the last epoch", lambda: log().count("epoch 2: ") == RANKS, 400)
        storage.ssh("scontrol", "requeue", job_id)
        wait_for("its end", lambda: not storage.ssh("squeue", "-h", "-j", job_id).strip(), 400)
    finally:
        said = log()
    result = json.loads(storage.ssh("cat", f"{folder}/result.json"))
    assert result["exit_code"] == 0, said
    assert "secrets.sh" not in storage.ssh("ls", folder).split()
    assert f"train: /fsx/data/channels/train: {SHARDS} shards, " in said
    assert f"{SAMPLES} samples; 3 to each rank, mode mount" in said

    count = RANKS * EPOCHS
    samples = wait_for(
        "its output in S3", lambda: found if len(found := reads(storage, "images")) == count else None, 120
    )
    for epoch in range(EPOCHS):
        read = [name for rank in range(RANKS) for name in samples[str(epoch), str(rank)]]
        # each once: nothing is missing, nothing is shared
        assert sorted(read) == images
    orders = {
        tuple(name for rank in range(RANKS) for name in samples[str(epoch), str(rank)]) for epoch in range(EPOCHS)
    }
    assert len(orders) == EPOCHS
    shards = reads(storage, "shards")
    for rank in range(RANKS):
        assert shards["2", str(rank), "1"] == shards["2", str(rank), "0"]
        assert len({frozenset(shards[str(epoch), str(rank), "0"]) for epoch in range(EPOCHS)}) > 1
