"""Examples of Horovod, PyTorch, Lightning and Accelerate as they are published: each runs with one command.

The commands are those of docs/training.md, at sizes for CPUs. Packages come from PyPI.
"""

from __future__ import annotations

import random
import re
import shutil
from pathlib import Path

import pytest
from bed import ROOT, Bed, Submitted

SUBJECTS = [
    "tests/data/public/*",
    "bootstrap/build-wheels.sh",
    "bootstrap/stand_in_wheels.py",
    "bootstrap/environments/torch.txt",
    "bootstrap/environments/horovod.txt",
    "bootstrap/environments/tensorflow.txt",
    "gpucluster_job/packages/overlay.py",
    "gpucluster/launchers/*run.py",
]
COVERED_BY = (
    "the same launchers in test_launchers.py, packages in test_packages_overlay.py, torchvision's wheel in "
    "test_build_wheels.py"
)
PUBLIC = ROOT / "tests/data/public"
TIMEOUT_S = 420
"""A job may be the first that needs its nodes, its environment and its packages."""
ON_TWO_NODES = ("--nodes", "2", "--gpus-per-node", "1")
ABORTED_AT_EXIT = "killed by SIGABRT, last line: terminate called without an active exception"
"""A thread of Gloo that frees its last tensor while Python ends aborts the process, as PyTorch's pull request 179291
(closed unmerged) describes. CPython before 3.14 ends such a thread (python/cpython issue 87135)."""
ATTEMPTS = 3
QUICKLY = ("--batch-size", "1", "--num-warmup-batches", "1", "--num-batches-per-iter", "1", "--num-iters", "1")


def run(bed: Bed, workdir: Path, *words: str) -> Submitted:
    return bed.submit("--workdir", str(workdir), "--follow", *words, timeout_s=TIMEOUT_S)


def log(job: Submitted) -> str:
    """That of a job that has succeeded."""
    assert job.exit_code == 0, job.told + "\n".join(job.log)
    return "\n".join(job.log)


def succeeded(bed: Bed, workdir: Path, *words: str) -> Submitted:
    """The job, submitted again if PyTorch aborted a rank after the end of its program."""
    for _ in range(ATTEMPTS):
        job = run(bed, workdir, *words)
        if ABORTED_AT_EXIT not in job.told:
            break
    return job


def skipped(job: Submitted) -> bool:
    return job.exit_code == 0 and bool(job.last.get("skipped"))


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """A folder in ImageNet's layout, of 12 images to train on and 6 to validate with."""
    draw = random.Random(0)
    for part, count in (("train", 6), ("val", 3)):
        for kind in ("cat", "dog"):
            (tmp_path / "images" / part / kind).mkdir(parents=True)
            for number in range(count):
                picture = b"P6 32 32 255\n" + draw.randbytes(32 * 32 * 3)
                (tmp_path / "images" / part / kind / f"{number}.ppm").write_bytes(picture)
    return tmp_path


def test_pytorchs_imagenet_runs_on_three_nodes_and_resumes(cluster: Bed, images: Path) -> None:
    """On CPUs the program itself averages no gradients; its ranks share the images and the accuracy."""
    shutil.copy(PUBLIC / "pytorch/main.py", images)

    def train(epochs: int) -> Submitted:
        program = f"""\
            mkdir -p $GPUCLUSTER_STATE/$RANK && cd $GPUCLUSTER_STATE/$RANK &&
            python $OLDPWD/main.py $OLDPWD/images --resume checkpoint.pth.tar --dist-url env:// --dist-backend gloo \
                --workers 0 --batch-size 4 --epochs {epochs}"""
        options = ("--nodes", "3", "--gpus-per-node", "1", "--with", "torchvision", "--name", "imagenet-public")
        return run(cluster, images, *options, "--", "bash", "-c", program)

    first = train(1)
    assert log(first).count("no checkpoint found at 'checkpoint.pth.tar'") == 3
    assert len(first.result["node_list"]) == first.result["world_size"] == 3
    assert skipped(train(1))
    second = log(train(2))
    assert second.count("=> loaded checkpoint 'checkpoint.pth.tar' (epoch 1)") == 3
    assert "Epoch: [1]" in second and "Epoch: [0]" not in second


def test_lightnings_imagenet_resumes(cluster: Bed, images: Path) -> None:
    shutil.copy(PUBLIC / "lightning/imagenet.py", images)

    def train(epochs: int) -> Submitted:
        program = f"""\
            python imagenet.py fit --model.data_path images --model.batch_size 4 --model.workers 0 \
                --trainer.accelerator cpu --trainer.devices 1 --trainer.num_nodes 2 --trainer.max_epochs {epochs} \
                --trainer.default_root_dir $GPUCLUSTER_STATE --trainer.callbacks+=ModelCheckpoint \
                --trainer.callbacks.save_last true --ckpt_path last"""
        packages = ("--with", "torchvision", "--with", "lightning[pytorch-extra]")
        options = (*ON_TWO_NODES, *packages, "--name", "lightning-public")
        return run(cluster, images, *options, "--", "bash", "-c", program)

    first = log(train(1))
    assert "All distributed processes registered. Starting with 2 processes" in first
    assert "`Trainer.fit` stopped: `max_epochs=1` reached." in first
    assert skipped(train(1))
    second = log(train(2))
    assert re.search(
        r"Restored all states from the checkpoint at .*/lightning-public/state/checkpoints/last.ckpt", second
    )
    assert "`Trainer.fit` stopped: `max_epochs=2` reached." in second


def test_gpt2_is_sharded_with_fsdp(cluster: Bed, tmp_path: Path) -> None:
    """Without a GPU the program cannot save its checkpoint, and says so."""
    shutil.copytree(PUBLIC / "gpt2-fsdp", tmp_path, dirs_exist_ok=True)
    draw = random.Random(0)
    (tmp_path / "data/openwebtext").mkdir(parents=True)
    for name, tokens in (("train", 8 * 32), ("val", 4 * 32)):
        text = b"".join(draw.randrange(64).to_bytes(2, "little") for _ in range(tokens + 1))
        (tmp_path / f"data/openwebtext/{name}.bin").write_bytes(text)
    size = ("--n_layer=2", "--n_head=2", "--n_embd=16", "--vocab_size=64", "--block_size=32", "--batch_size=2")
    packages = ("--with", "tensorboard", "--with", "tqdm")
    program = ("--", "python", "train_fsdp.py", *size, "--epochs=1")
    job = run(cluster, tmp_path, *ON_TWO_NODES, *packages, *program)
    text = log(job)
    assert "world_size=2, fsdp=True" in text and "ShardingStrategy.FULL_SHARD" in text
    assert re.search(r"Train Epoch: \t1, Loss: \t\d", text)


def test_accelerates_own_check_trains_alike_on_two_nodes(cluster: Bed, tmp_path: Path) -> None:
    """It compares training on all ranks with training on one."""
    options = (*ON_TWO_NODES, "--with", "accelerate", "--env", "ACCELERATE_USE_CPU=true")
    program = ("--", "python", "-m", "accelerate.test_utils.scripts.test_script")
    text = log(succeeded(cluster, tmp_path, *options, *program))
    assert "Num processes: 2" in text
    assert "Training yielded the same results on one CPU or distributed setup with batch split." in text


def test_horovods_pytorch_benchmark_runs(cluster: Bed) -> None:
    options = (*ON_TWO_NODES, "--launcher", "horovodrun", "--with", "torchvision", "--name", "horovod-pytorch")
    program = ("--", "python", "pytorch_synthetic_benchmark.py", "--model", "resnet18", *QUICKLY)
    assert re.search(r"Total img/sec on 2 CPU\(s\): \d", log(run(cluster, PUBLIC / "horovod", *options, *program)))
    assert skipped(run(cluster, PUBLIC / "horovod", *options, *program))


def test_horovods_tensorflow_benchmark_runs(servers: Bed) -> None:
    options = (*ON_TWO_NODES, "--launcher", "horovodrun", "--framework", "tensorflow")
    program = ("--", "python", "tensorflow2_synthetic_benchmark.py", "--no-cuda", "--model", "MobileNetV2", *QUICKLY)
    assert re.search(r"Total img/sec on 2 CPU\(s\): \d", log(run(servers, PUBLIC / "horovod", *options, *program)))
