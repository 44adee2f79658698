"""A data set in S3 comes to the ranks: through the file system that is linked to it, as a stream, as copies."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from bed import Bed, wait_for
from test_launchers import PROGRAMS

BUCKET, SHARDS, SAMPLES = "storage-tests", 12, 120
RANKS, EPOCHS = 4, 3
PREFIX = "data/channels"


@pytest.fixture(scope="module")
def images(storage: Bed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """What is in all images of a data set that `gpucluster data shard` has put into S3, where /fsx/data follows it."""
    source = tmp_path_factory.mktemp("images")
    for number in range(SAMPLES):
        path = source / "train" / f"class-{number % 3}" / f"image-{number:03d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(path.stem.encode())
    target = f"s3://{BUCKET}/{PREFIX}"
    done = storage.gpucluster(
        "data", "shard", str(source), target, "--shards", str(SHARDS), "--no-check", "--workers", "1"
    )
    assert done.returncode == 0, done.stderr
    yield [f"image-{number:03d}" for number in range(SAMPLES)]


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


def test_data_is_streamed_and_copied_out_of_s3(storage: Bed, images: list[str]) -> None:
    source = f"s3://{BUCKET}/{PREFIX}/train"
    words = (
        "--partition", "raid", "--gpus-per-node", "2", "--workdir", str(PROGRAMS), "--time", "10m", "--follow",
        "--channel", f"train={source},mode=stream",
    )  # fmt: skip
    val = ("--channel", f"val={source},unpack=tar,shard=none", "--", "python", "channel_streams.py")
    job = storage.submit(*words, *val)
    assert job.exit_code == 0, job.told
    told = [line.partition("] ")[2].split() for line in job.log]
    assert sorted(words[1] for words in told if words[0] == "streamed") == images
    assert sorted(tuple(words[1:]) for words in told if words[0] == "copied") == sorted(
        (image, "True") for image in images * 2
    )
    again = storage.submit(*words, *val)
    assert again.exit_code == 0, again.told
    assert any(line.startswith("[channels] val: ") and "has it already: /scratch/cache/" in line for line in again.log)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (f"s3://{BUCKET}/{PREFIX}/trian", "nothing lies there; did you mean train?"),
        (f"s3://{BUCKET}/data/locked", f"s3://{BUCKET}/data/locked/a.tar: S3 denies access to it"),
        ("/home/ubuntu/nowhere", "/home/ubuntu/nowhere: no such folder on "),
    ],
)
def test_data_that_cannot_be_had_ends_the_job_before_its_command(
    storage: Bed, images: list[str], source: str, said: str
) -> None:
    s3 = storage.client("s3")
    s3.put_object(Bucket=BUCKET, Key="data/locked/a.tar", Body=b"")
    policy = {
        "Effect": "Deny",
        "Principal": "*",
        "Action": "s3:GetObject",
        "Resource": f"arn:aws:s3:::{BUCKET}/data/locked/*",
    }
    s3.put_bucket_policy(Bucket=BUCKET, Policy=json.dumps({"Version": "2012-10-17", "Statement": [policy]}))
    job = storage.submit(
        "--partition", "raid", "--gpus-per-node", "1", "--launcher", "srun", "--follow", "--channel", f"train={source}",
        "--", "echo", "the command ran",
    )  # fmt: skip
    assert job.exit_code == 4
    assert said in job.result["reason"]
    assert not any("the command ran" in line or "Traceback" in line for line in job.log)
