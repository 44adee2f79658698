"""The ImageNet recipes at a tiny size, on the session's cluster: gradients reach all ranks, whichever way they take."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from bed import Bed, Submitted

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(__file__).parent / "programs"
SIZE = ("--nodes", "2", "--gpus-per-node", "2", "--follow")


def train(cluster: Bed, job: str, *words: str) -> tuple[Submitted, dict[str, Any]]:
    """The job file's program on made-up images, and the line of JSON that it ends with."""
    command = ("python", "train_torch.py", *words, "--synthetic", "tiny", "--global-batch", "64")
    done = cluster.submit(f"examples/imagenet/{job}.yaml", *SIZE, "--", *command)
    assert done.exit_code == 0, done.told + "\n".join(done.log)
    reports = [line.partition("] ")[2] for line in done.log if line.startswith("[0 ")]
    return done, json.loads([report for report in reports if report.startswith("{")][-1])


def losses(job: Submitted) -> list[float]:
    return [
        float(line.partition("loss ")[2].partition(",")[0]) for line in job.log if "loss " in line and "epoch" in line
    ]


@pytest.mark.parametrize("model", ["resnet50", "efficientnet-b0"])
def test_one_program_trains_alike_under_torchrun_and_horovodrun(cluster: Bed, model: str) -> None:
    """The program fails by itself where ranks end with different weights."""
    ddp, through_ddp = train(cluster, "resnet50-ddp", model)
    horovod, through_horovod = train(cluster, "resnet50-horovod", model)
    for job, found in ((ddp, through_ddp), (horovod, through_horovod)):
        assert found["world_size"] == 4
        assert found["accuracy"] >= 0.9
        assert any("4 ranks, batch 16 each, 64 in all, peak learning rate 0.05" in line for line in job.log)
        assert job.result["metrics"]["accuracy"]["last"] == found["accuracy"]
    assert losses(ddp) == pytest.approx(losses(horovod), abs=0.02)
    assert losses(ddp)[-1] < losses(ddp)[0] / 2


def test_torch_follows_the_schedule(cluster: Bed) -> None:
    words = ("--nodes", "1", "--gpus-per-node", "1", "--launcher", "srun", "--framework", "torch", "--follow")
    workdir = ("--workdir", str(PROGRAMS))
    done = cluster.submit(*words, *workdir, "--", "python", "schedule_torch.py")
    assert done.exit_code == 0, done.told + "\n".join(done.log)
    assert any("torch followed the schedule" in line for line in done.log)
