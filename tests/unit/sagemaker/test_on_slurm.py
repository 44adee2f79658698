"""A rank on a Slurm cluster has the variables of SageMaker."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from gpucluster_job.ranks.identity import Identity
from gpucluster_job.sagemaker import on_slurm

COMMAND = ["python", "train.py", "--epochs", "3"]


@pytest.fixture
def seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """seen(NAME=VALUE…): the environment of rank 1 on the second of two nodes, in a job with three channels."""
    for name, index in {
        "train": {"mode": "mount", "root": "/fsx/train", "shard": "by-rank"},
        "eval": {"mode": "copy", "root": "s3://data/eval", "shard": "by-node"},
        "far": {"mode": "stream", "root": "s3://data/far", "shard": "by-rank"},
    }.items():
        place = tmp_path / "channels" / name
        place.mkdir(parents=True)
        (place / "index.json").write_text(json.dumps(index), encoding="utf-8")
    (tmp_path / "channels" / "eval" / "on-train-2").write_text("/scratch/eval\n", encoding="utf-8")

    def environment(**given: str) -> dict[str, str]:
        for name in [*os.environ]:
            if name.startswith("SM_"):
                monkeypatch.delenv(name)
        given = {"GPUCLUSTER_JOB_DIR": str(tmp_path), "GPUCLUSTER_NODES": "train-1 train-2", **given}
        for name, value in given.items():
            monkeypatch.setenv(name, value)
        on_slurm.set_variables(Identity("1", "train-2"), COMMAND)
        found = dict(os.environ)
        for name in found.keys() - given.keys():
            if name.startswith(("SM_", "SAGEMAKER_")) or name == "CURRENT_HOST":
                monkeypatch.delenv(name)
        return found

    return environment


def test_the_variables_that_scripts_read(seen: Any, tmp_path: Path) -> None:
    found = seen(GPUS_PER_NODE="4", NCCL_SOCKET_IFNAME="ens5")
    assert json.loads(found["SM_HOSTS"]) == ["train-1", "train-2"]
    assert found["SM_CURRENT_HOST"] == "train-2"
    assert found["SM_NUM_GPUS"] == "4"
    assert found["SM_NETWORK_INTERFACE_NAME"] == "ens5"
    assert found["SM_USER_ENTRY_POINT"] == "train.py"
    assert found["SM_HPS"] == "{}"
    model = Path(found["SM_MODEL_DIR"])
    assert model == tmp_path / "sagemaker" / "model"
    assert model.is_dir()
    assert Path(found["SM_OUTPUT_DATA_DIR"]).is_dir()


def test_channels_are_folders_of_the_node(seen: Any) -> None:
    found = seen()
    assert json.loads(found["SM_CHANNELS"]) == ["eval", "train"]
    assert (found["SM_CHANNEL_TRAIN"], found["SM_CHANNEL_EVAL"]) == ("/fsx/train", "/scratch/eval")
    assert json.loads(found["SM_INPUT_DATA_CONFIG"])["eval"]["S3DistributionType"] == "ShardedByS3Key"
    assert "SM_CHANNEL_FAR" not in found


def test_what_is_set_already_stays(seen: Any) -> None:
    assert seen(SM_MODEL_DIR="/fsx/models")["SM_MODEL_DIR"] == "/fsx/models"
