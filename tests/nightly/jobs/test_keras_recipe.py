"""The recipe of Keras in a Python like the nodes', without a cluster: two ranks of Horovod, from TFRecords."""

from __future__ import annotations

import json
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from bed import ROOT

from tests.nightly.jobs import image_job
from tests.nightly.jobs.image_job import VAL, ImageJob

SUBJECTS = [
    "examples/imagenet/images_keras.py",
    "examples/imagenet/recipes.py",
    "examples/imagenet/train_keras.py",
    "gpucluster_train/assignment.py",
    "gpucluster_train/channels.py",
    "gpucluster_train/feed.py",
    "gpucluster_train/whole_shards.py",
    "tests/nightly/jobs/image_job.py",
    "bench/photos.py",
    "bootstrap/environments/tensorflow-cpu.txt",
]
COVERED_BY = "test_imagenet_recipes.py, without TensorFlow"
RECIPE = ROOT / "examples" / "imagenet" / "train_keras.py"
SMALL = (
    "resnet50", "--image-size", "32", "--classes", "4", "--width", "0.125", "--global-batch", "16", "--workers", "1",
    "--learning-rate", "0.05", "--reference-batch", "64", "--warmup-epochs", "0.5", "--weight-decay", "0",
    "--epochs", "3",
)  # fmt: skip
HOROVODRUN = ("horovodrun", "--gloo", "-np", "2")
NO_XLA = {"TF_XLA_FLAGS": ""}
EPOCH = re.compile(r"epoch (\d+)/\d+: loss ([\d.]+), [\d.]+ images/s, data \d+ % of [\d.]+ s(.*)")

pytestmark = pytest.mark.timeout(1800)


@dataclass
class Run:
    code: int
    log: str

    @property
    def losses(self) -> dict[int, float]:
        return {int(epoch): float(loss) for epoch, loss, _ in EPOCH.findall(self.log)}

    @property
    def curve(self) -> list[str]:
        return [rest.strip() for *_, rest in EPOCH.findall(self.log)]

    @property
    def report(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(re.findall(r"\{.*\}", self.log)[-1])
        return found


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return image_job.environment(tmp_path_factory.mktemp("python"), "tensorflow-cpu", "tensorflow-cpu")


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> ImageJob:
    return image_job.make(tmp_path_factory.mktemp("job"), "tfrecord", ranks=2)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("saved")


def run(
    programs: Path, *words: object, job: ImageJob | None = None, launcher: tuple[str, ...] = (), **more: str
) -> Run:
    variables = {"PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **more}
    if job:
        variables |= job.variables
    argv = [*launcher, "python", RECIPE, *words]
    done = subprocess.run(
        argv, env=os.environ | variables, capture_output=True, text=True, timeout=900, check=False, cwd=RECIPE.parent
    )
    return Run(done.returncode, done.stdout + done.stderr)


@pytest.fixture(scope="module")
def whole(programs: Path, job: ImageJob, saved: Path) -> Run:
    """Without XLA, three epochs."""
    words = ("--validate-every", "1", "--checkpoint", saved)
    done = run(programs, *SMALL, *words, job=job, launcher=HOROVODRUN, **NO_XLA)
    assert done.code == 0, done.log
    return done


def test_each_image_of_the_channel_is_validated_once(whole: Run) -> None:
    assert whole.report["validated"] == 4 * VAL
    assert len(whole.curve) == 3
    assert all(re.fullmatch(r", accuracy [\d.]+ of 52 images", each) for each in whole.curve), whole.curve


def test_it_learns_from_tfrecords(whole: Run) -> None:
    """Also from the PNG, the grey and the CMYK image among them."""
    assert "12 steps an epoch" in whole.log  # of 192 images
    assert whole.losses[3] < whole.losses[1] / 2
    assert "Compiled cluster using XLA!" not in whole.log


def test_xla_trains_to_the_same_losses(programs: Path, job: ImageJob, whole: Run) -> None:
    """A wrong image shows: with other random numbers for a few mirrored ones, the losses were 0.006 apart."""
    done = run(programs, *SMALL, job=job, launcher=HOROVODRUN)
    assert done.code == 0, done.log
    assert "Compiled cluster using XLA!" in done.log
    assert list(done.losses) == [1, 2, 3]
    assert done.losses == pytest.approx(whole.losses, abs=0.001)


def test_a_resumed_training_has_the_losses_of_a_whole_one(
    programs: Path, job: ImageJob, saved: Path, whole: Run
) -> None:
    """As if it had ended after its second epoch: the file `checkpoint` is what TensorFlow goes on from."""
    index = saved / "checkpoint"
    index.write_text('model_checkpoint_path: "ckpt-2"\nall_model_checkpoint_paths: "ckpt-2"\n')
    done = run(programs, *SMALL, "--checkpoint", saved, job=job, launcher=HOROVODRUN, **NO_XLA)
    assert done.code == 0, done.log
    assert list(done.losses) == [3]
    assert done.losses[3] == whole.losses[3]
    assert done.report["accuracy"] == whole.report["accuracy"]


def test_a_checkpoint_that_does_not_fit_is_named_in_one_line(programs: Path, saved: Path, whole: Run) -> None:
    """TensorFlow itself would validate with the random weights of the start."""
    words = ("--synthetic", "tiny", "--ema-decay", "0.9", "--checkpoint", saved)
    done = run(programs, *SMALL, *words, **NO_XLA)
    assert done.code == 1
    assert f"{saved}/ckpt-3: the checkpoint cannot be read, or is of another model, or of other options" in done.log
    assert "Traceback" not in done.log


def test_a_broken_image_is_named_in_one_line(programs: Path, job: ImageJob, tmp_path: Path) -> None:
    data = tmp_path / "data"
    for path in sorted(job.pictures.rglob("*.JPEG")):
        target = data / path.relative_to(job.pictures)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
    broken = data / "train" / "c1" / "9.JPEG"
    broken.write_bytes(broken.read_bytes()[:300])
    done = run(programs, *SMALL, "--data", data, **NO_XLA)
    assert done.code == 1
    assert re.search(rf"^error: epoch 1: {re.escape(str(broken))}: cannot be decoded: ", done.log, re.MULTILINE)
    assert "Traceback" not in done.log


HALF = {
    "efficientnet-b0": ("--precision", "bf16", "--ema-decay", "0.9", "--label-smoothing", "0.1"),
    "resnet50": ("--precision", "fp16", "--mixup", "0.2", "--ema-decay", "0.9", "--compress"),
}


@pytest.mark.parametrize("model", list(HALF))
def test_it_learns_in_half_precision(programs: Path, job: ImageJob, model: str) -> None:
    words = (*SMALL[1:], "--epochs", "2", "--data", job.pictures, "--validate-every", "1", *HALF[model])
    done = run(programs, model, *words, **NO_XLA)
    assert done.code == 0, done.log
    assert done.losses[2] < done.losses[1]
    assert done.report["validated"] == 4 * VAL
    assert [each.endswith(" of 52 images") for each in done.curve] == [True] * 2
