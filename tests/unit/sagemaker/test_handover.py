"""A task's state goes from SageMaker to a Slurm cluster: gpucluster_train/state_sync.py itself restores it."""

from __future__ import annotations

import io
import json
import os
import shutil
import time
from pathlib import Path

import pytest

from gpucluster_job.sagemaker import checkpoints, handover
from gpucluster_train import state_sync

URI = "s3://data/states/digits/train"
NO_BOTO3 = {checkpoints.URI: URI, "PATH": "/nonexistent"}
"""As in an image without it."""


class Bucket:
    """The calls of `state_sync.Copy`, for a folder that takes the place of the bucket."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def list_objects_v2(self, Bucket: str, Prefix: str, MaxKeys: int) -> dict[str, list[str]]:
        return {"Contents": [Prefix]} if self._path(Prefix).exists() else {}

    def get_object(self, Bucket: str, Key: str) -> dict[str, object]:
        return {"Body": io.BytesIO(self._path(Key).read_bytes())}

    def download_file(self, bucket: str, key: str, to: str) -> None:
        shutil.copyfile(self._path(key), to)

    def _path(self, key: str) -> Path:
        return self._folder / key.removeprefix("states/digits/train/")


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """/opt/ml/checkpoints at the end of a job."""
    folder = tmp_path / "checkpoints"
    for name in ("model.pt", "step-3/.metadata", "step-3/0.pt", "outputs/shards/0.tar", ".cache", "step-4.tmp/0.pt"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name, encoding="utf-8")
    return folder


def restored(cluster: Path, bucket: Path) -> str:
    copy = state_sync.Copy(URI, s3=Bucket(bucket))
    return state_sync.Sync(cluster / "state", copy, cluster / "state.kept").restore()


def names(folder: Path) -> list[str]:
    return sorted(checkpoints.sizes(folder))


def test_a_cluster_restores_what_sagemaker_has_written(written: Path, tmp_path: Path) -> None:
    handover.write(written, [], NO_BOTO3, stopped=False)
    cluster = tmp_path / "cluster"
    assert "3 files were restored" in restored(cluster, written)
    assert names(cluster / "state") == ["model.pt", "step-3/.metadata", "step-3/0.pt"]


def test_it_replaces_a_state_of_before(written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the cluster would go on from its own old state, and write that to S3."""
    monkeypatch.setenv("SLURM_JOB_ID", "12")
    cluster = tmp_path / "cluster"
    (cluster / "state").mkdir(parents=True)
    (cluster / "state" / "model.pt").write_text("older", encoding="utf-8")
    old = {"id": "of this cluster", "files": {"model.pt": [5, time.time_ns(), None]}}
    (written / state_sync.LIST).write_text(json.dumps(old), encoding="utf-8")
    (cluster / "state.kept").write_text(json.dumps(["of this cluster"]), encoding="utf-8")
    assert restored(cluster, written) == ""
    handover.write(written, [], NO_BOTO3, stopped=False)
    assert "which another cluster wrote" in restored(cluster, written)
    assert (cluster / "state" / "model.pt").read_text(encoding="utf-8") == "model.pt"


def test_files_of_other_hosts_are_in_the_list(written: Path) -> None:
    handover.write(written, ["rank-8.pt"], NO_BOTO3, stopped=True)
    listed = json.loads((written / state_sync.LIST).read_text(encoding="utf-8"))["files"]
    assert sorted(listed) == ["model.pt", "rank-8.pt", "step-3/.metadata", "step-3/0.pt"]


def test_a_job_that_is_no_task_has_no_list(written: Path) -> None:
    handover.write(written, [], {"PATH": os.defpath}, stopped=False)
    assert not (written / state_sync.LIST).exists()


def test_both_packages_mean_the_same_files() -> None:
    assert (handover.LIST, handover.DISTRIBUTED) == (state_sync.LIST, state_sync.DISTRIBUTED)
    for name in ("a.pt", ".a", "a.tmp", ".metadata"):
        assert handover.is_state(name) == state_sync.finished(name)
