"""The ImageNet recipes at a tiny size, Keras's example, and the schedule in each framework: gradients reach all ranks,
whichever way."""

from __future__ import annotations

import json
from typing import Any

import pytest
from bed import ROOT, Bed, Submitted

SUBJECTS = [
    "examples/imagenet/*",
    "examples/keras/*",
    "gpucluster_train/*",
    "tests/cluster/programs/schedule_*.py",
    "bootstrap/environments/*.txt",
]
COVERED_BY = "test_training.py, test_launchers.py, test_imagenet_recipes.py"
PROGRAMS = ROOT / "tests" / "cluster" / "programs"
FOUR_RANKS = ("--nodes", "2", "--gpus-per-node", "2")
NO_CHANNELS = ("--channel", "null")
TINY = ("--synthetic", "tiny", "--global-batch", "32")
TIMEOUT_S = 420
"""A job may be the first that needs its nodes and its environment."""


def train(bed: Bed, job: str, *words: str, ranks: int = 4) -> Submitted:
    """Runs the job file with changes. The model must have learned, according to result.json."""
    done = bed.submit(f"examples/imagenet/{job}.yaml", "--follow", *NO_CHANNELS, *words, *TINY, timeout_s=TIMEOUT_S)
    assert done.exit_code == 0, done.told + "\n".join(done.log)
    found = report(done)
    assert found["world_size"] == ranks
    assert found["accuracy"] >= 0.9
    assert done.result["metrics"]["accuracy"]["last"] == found["accuracy"]
    assert any(" 32 in all, peak learning rate " in line for line in done.log)
    return done


def report(job: Submitted) -> dict[str, Any]:
    """The JSON that the first rank ends with; MXNet numbers its workers itself, so its first may be any rank."""
    lines = (line.partition("] ")[2] for line in job.log)
    found: dict[str, Any] = json.loads([line for line in lines if line.startswith("{")][-1])
    return found


def losses(job: Submitted) -> list[float]:
    found = (line.partition("loss ")[2].partition(",")[0] for line in job.log if "] epoch " in line)
    return [float(loss) for loss in found]


def test_one_program_trains_alike_under_torchrun_and_horovodrun(cluster: Bed) -> None:
    """The program fails by itself where ranks end with different weights."""
    program = (*FOUR_RANKS, "--", "python", "train_torch.py", "resnet50")
    ddp, horovod = (train(cluster, job, *program) for job in ("resnet50-ddp", "resnet50-horovod"))
    assert losses(ddp) == pytest.approx(losses(horovod), abs=0.02)
    assert losses(ddp)[-1] < losses(ddp)[0] / 2


def test_it_trains_where_srun_starts_the_ranks(cluster: Bed) -> None:
    """The program fails by itself where ranks end with different weights."""
    words = ("--launcher", "srun", *FOUR_RANKS, "--", "python", "train_torch.py", "resnet50")
    found = losses(train(cluster, "resnet50-ddp", *words))
    assert found[-1] < found[0] / 2


def test_efficientnet_trains_with_horovod(cluster: Bed) -> None:
    train(cluster, "efficientnet-horovod", *FOUR_RANKS, "--", "python", "train_torch.py", "efficientnet-b0")


def test_efficientnet_trains_with_smddp(servers: Bed) -> None:
    """By the library's stand-in: the launcher, the environment and the program's way are the real ones."""
    program = (*FOUR_RANKS, "--partition", "big", "--", "python", "train_torch.py", "efficientnet-b0")
    train(servers, "efficientnet-smddp", *program)


def test_mxnet_workers_end_with_the_same_weights_and_continue_from_them(servers: Bed) -> None:
    program = ("--nodes", "2", "--servers", "2", "--", "python", "train_mxnet.py", "resnet50")
    words = (*program, "--checkpoint", "/home/ubuntu/tiny.params", "--validate-every", "2")
    whole = train(servers, "resnet50-mxnet", *words, ranks=2)
    more = train(servers, "resnet50-mxnet", *words, "--epochs", "5", ranks=2)
    for job in (whole, more):
        one, other = [line.partition("] weights ")[2] for line in job.log if "] weights " in line]
        assert float(one) == float(other) > 0
    assert (len(losses(whole)), len(losses(more))) == (4, 1)
    assert any("] continues after epoch 4 of /home/ubuntu/tiny.params" in line for line in more.log)
    assert losses(more)[0] < losses(whole)[0] / 2


def test_the_keras_example_learns_with_horovod_and_continues(servers: Bed) -> None:
    words = ("examples/keras/job.yaml", "--follow", "--", "python", "after.py")
    found = []
    for epochs in ("3", "6"):
        done = servers.submit(*words, "--epochs", epochs, timeout_s=TIMEOUT_S)
        assert done.exit_code == 0, done.told + "\n".join(done.log)
        found.append(report(done))
    assert [(each["epochs"], each["resumed_from"], each["world_size"]) for each in found] == [(3, 0, 4), (6, 3, 4)]
    assert found[1]["loss"] <= found[0]["loss"] and found[1]["accuracy"] > 0.9
    assert done.result["metrics"]["accuracy"]["last"] == found[1]["accuracy"]


def follow_the_schedule(bed: Bed, framework: str, *words: str) -> None:
    program = ("--workdir", str(PROGRAMS), "--follow", "--", "python", f"schedule_{framework}.py")
    done = bed.submit(*words, *program, timeout_s=TIMEOUT_S)
    assert done.exit_code == 0, done.told + "\n".join(done.log)
    assert any(f"{framework} followed the schedule" in line for line in done.log)


ONE_RANK = ("--launcher", "srun", "--ntasks-per-node", "1")
# Each names the cluster that it shares: one that asked for it by a parameter would boot its own.


def test_torch_follows_the_schedule(cluster: Bed) -> None:
    follow_the_schedule(cluster, "torch", *ONE_RANK, "--framework", "torch")


def test_keras_follows_the_schedule(servers: Bed) -> None:
    follow_the_schedule(servers, "keras", *ONE_RANK, "--framework", "tensorflow")


def test_mxnet_follows_the_schedule(servers: Bed) -> None:
    follow_the_schedule(servers, "mxnet", "--launcher", "mxnet-ps", "--nodes", "2", "--servers", "2")
