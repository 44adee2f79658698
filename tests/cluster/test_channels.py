"""Ranks read a data set in S3 as a stream and as copies. test_channel_epochs.py reads it through a file system."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from bed import Bed
from test_launchers import PROGRAMS

BUCKET, SHARDS, SAMPLES = "storage-tests", 12, 120
PREFIX = "data/channels"


def put_images(storage: Bed, source: Path) -> list[str]:
    """The contents of all images of a data set that `gpucluster data shard` wrote to S3; /fsx/data imports it.

    Tests of two files call it on one cluster: from the same source, the second finds the data set complete.
    """
    for number in range(SAMPLES):
        path = source / "train" / f"class-{number % 3}" / f"image-{number:03d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(path.stem.encode())
    target = f"s3://{BUCKET}/{PREFIX}"
    done = storage.gpucluster(
        "data", "shard", str(source), target, "--shards", str(SHARDS), "--no-check", "--workers", "1"
    )
    assert done.returncode == 0, done.stderr
    return [f"image-{number:03d}" for number in range(SAMPLES)]


@pytest.fixture(scope="module")
def images(storage: Bed, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return put_images(storage, tmp_path_factory.getbasetemp() / "images-of-channels")


def test_data_is_streamed_and_copied_out_of_s3(storage: Bed, images: list[str]) -> None:
    source = f"s3://{BUCKET}/{PREFIX}/train"
    words = (
        "--partition", "raid", "--gpus-per-node", "2", "--workdir", str(PROGRAMS), "--time", "10m", "--follow",
        "--channel", f"train={source},mode=stream",
    )  # fmt: skip
    val = ("--channel", f"val={source},unpack=tar,shard=none", "--", "python", "channel_streams.py")
    job = storage.submit(*words, *val)
    assert job.exit_code == 0, job.told
    printed = [line.partition("] ")[2].split() for line in job.log]
    assert sorted(words[1] for words in printed if words[0] == "streamed") == images
    assert sorted(tuple(words[1:]) for words in printed if words[0] == "copied") == sorted(
        (image, "True") for image in images * 2
    )
    again = storage.submit(*words, *val)
    assert again.exit_code == 0, again.told
    assert any(line.startswith("[channels] val: ") and "already has it: /scratch/cache/" in line for line in again.log)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (f"s3://{BUCKET}/{PREFIX}/trian", "no object has this prefix; did you mean train?"),
        (f"s3://{BUCKET}/data/locked", f"s3://{BUCKET}/data/locked/a.tar: S3 denies access"),
        ("/home/ubuntu/nowhere", "/home/ubuntu/nowhere: no such folder on "),
    ],
)
def test_missing_data_ends_the_job_before_its_command(storage: Bed, images: list[str], source: str, said: str) -> None:
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
