"""Keras with Horovod as a training job on booted hosts: a Pipe for each rank, ShuffleConfig, TensorBoard in S3."""

from __future__ import annotations

import io
import json
import random
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from bed import Bed

from tests.cluster.sagemaker import trainer
from tests.cluster.sagemaker.trainer import BUCKET
from tests.nightly.sagemaker import hosts

SUBJECTS = [
    "gpucluster_job/sagemaker/*.py",
    "gpucluster/sagemaker/channels.py",
    "gpucluster/sagemaker/request.py",
    "gpucluster_train/channels.py",
    "localcloud/training/*.py",
    "bootstrap/environments/tensorflow-cpu.txt",
    "tests/nightly/sagemaker/pipes/*",
    "tests/nightly/sagemaker/hosts.py",
]
COVERED_BY = "test_training_jobs_booted.py: mpirun and FastFile; test_training_jobs.py: the pipes; test_channel_plan.py"
JOB = Path(__file__).parent / "pipes"
HOROVODRUN = f'#!/bin/sh\nexec {hosts.GUESTS}/bin/python3 -m horovod.runner.launch "$@"\n'
RANKS, OBJECTS, ROWS, EPOCHS = 4, 16, 16, 3

pytestmark = pytest.mark.timeout(1800)


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    folder = hosts.programs(tmp_path_factory.mktemp("programs"), "tensorflow-cpu.txt")
    (folder / "bin/horovodrun").write_text(HOROVODRUN)  # pip's has the path of this machine
    (folder / "bin/horovodrun").chmod(0o755)
    with hosts.up(tmp_path_factory.mktemp("pipes"), folder) as bed:
        yield bed


def put_objects(bed: Bed) -> None:
    """Rows of x, y, 2x - y and the object's number."""
    numbers = random.Random(1)
    for number in range(OBJECTS):
        pairs = [(numbers.random(), numbers.random()) for _ in range(ROWS)]
        rows = "".join(f"{x:.4f},{y:.4f},{2 * x - y:.4f},{number}\n" for x, y in pairs)
        bed.client("s3").put_object(Bucket=BUCKET, Key=f"train/{number}.csv", Body=rows.encode())


def test_each_rank_reads_its_pipe_and_all_learn_one_model(cloud: Bed, tmp_path: Path) -> None:
    put_objects(cloud)
    settings = tmp_path / "sagemaker.yaml"
    settings.write_text(f"region: us-east-1{trainer.SECTION}channels:\n  train: {{mode: Pipe, shuffle_seed: 7}}\n")
    words = ("-c", str(settings), "submit", str(JOB / "job.yaml"), "--on", "sagemaker", "--follow")
    done = cloud.gpucluster(*words, timeout_s=900)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "train: Pipe, a channel per local rank, by 2 manifests of 16 objects" in done.stderr
    ended = cloud.client("sagemaker").describe_training_job(
        TrainingJobName=json.loads(done.stdout.splitlines()[-1])["job_id"]
    )
    said = [line.partition("] ")[2].split() for line in done.stdout.splitlines()]
    orders = {epoch: [words[3:] for words in said if words[:2] == ["epoch", str(epoch)]] for epoch in range(EPOCHS)}
    for each in orders.values():
        assert [len(objects) for objects in each] == [OBJECTS // RANKS] * RANKS, done.stdout
        assert sorted(int(number) for objects in each for number in objects) == list(range(OBJECTS))
    assert len({str(sorted(each)) for each in orders.values()}) == EPOCHS, orders
    weights = [tuple(words) for words in said if words[:1] == ["weights"]]
    assert (len(weights), len(set(weights))) == (RANKS, 1), done.stdout
    losses = [float(words[0][5:]) for words in said if words and words[0].startswith("loss=")]
    assert losses[-1] < losses[0]
    assert ended["FinalMetricDataList"][0]["Value"] == pytest.approx(losses[-1], abs=1e-4)
    _has_model_and_events(cloud, ended["ModelArtifacts"]["S3ModelArtifacts"])


def _has_model_and_events(cloud: Bed, model: str) -> None:
    s3, key = cloud.client("s3"), model.partition(f"{BUCKET}/")[2]
    packed = io.BytesIO(s3.get_object(Bucket=BUCKET, Key=key)["Body"].read())
    with tarfile.open(fileobj=packed) as archive:
        assert archive.getnames() == ["weights.h5"]
    keys = [each["Key"] for each in s3.list_objects_v2(Bucket=BUCKET, Prefix="gpucluster/")["Contents"]]
    events = [each for each in keys if "/tensorboard-output/" in each and ".tfevents." in each]
    assert events, keys
    assert all(".ip-10-0-0-10." in each for each in events), "only rank 0 writes"
