"""The recipe of MXNet in a Python like the nodes', without a cluster: one worker, from several RecordIO shards.

test_recipes.py runs it with parameter servers on booted nodes, with made-up images.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from bed import ROOT

from tests.nightly.jobs import image_job
from tests.nightly.jobs.image_job import TRAIN, VAL, ImageJob

SUBJECTS = [
    "examples/imagenet/*mxnet.py",
    "examples/imagenet/recipes.py",
    "gpucluster_train/assignment.py",
    "gpucluster_train/channels.py",
    "gpucluster_train/feed.py",
    "gpucluster_train/mxnet.py",
    "gpucluster_train/whole_shards.py",
    "tests/nightly/jobs/image_job.py",
    "bench/photos.py",
    "bootstrap/environments/mxnet-cpu.txt",
]
COVERED_BY = "test_imagenet_recipes.py, without MXNet"
RECIPES = ROOT / "examples" / "imagenet"
SMALL = (
    "resnet50", "--image-size", "32", "--classes", "4", "--width", "0.125", "--global-batch", "16", "--workers", "1",
    "--learning-rate", "0.05", "--reference-batch", "64", "--warmup-epochs", "0.5", "--weight-decay", "0",
    "--epochs", "3",
)  # fmt: skip
LABELS = """
import json, sys
import images_mxnet, recipes
from gpucluster_train import World
train, val = images_mxnet.sources(recipes.options(("resnet50",), sys.argv[1:]), World())
print(json.dumps([
    [int(label) for _, labels in images.batches(epoch, 16) for label in labels.asnumpy()]
    for images, epoch in ((train, 0), (train, 1), (train, 0), (val, 0))
]))
"""

CONTINUED = """
import json, sys
import recipes, train_mxnet
training = train_mxnet.Training(recipes.options(("resnet50",), sys.argv[1:]))
rate = training.trainer.learning_rate
schedule = training.recipe.schedule(training.batches.learning_rate, training.steps)
training.epoch(training.epochs_done)
after = training.trainer.learning_rate
print(json.dumps([training.epochs_done, training.steps, rate, after, [schedule(step) for step in range(100)]]))
"""


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return image_job.environment(tmp_path_factory.mktemp("python"), "mxnet-cpu")


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> ImageJob:
    return image_job.make(tmp_path_factory.mktemp("job"), "recordio", ranks=1, val="none")


def run(programs: Path, job: ImageJob, *argv: object, code: int = 0) -> str:
    """What a program of the environment prints; what it says in the end if it must fail."""
    variables = {"PYTHONPATH": f"{ROOT}:{RECIPES}", **job.variables}
    done = subprocess.run(
        [programs / "python", *argv],
        env=os.environ | variables,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stderr.splitlines()[-1] if code else done.stdout


@pytest.mark.parametrize("data", ["channel", "folder"])
def test_it_learns_and_validates_each_image_once(programs: Path, job: ImageJob, data: str) -> None:
    """From six shards of the channel, or from JPEGs; also from the PNG, the grey and the CMYK image among them."""
    words = [] if data == "channel" else ["--data", job.pictures]
    told = run(programs, job, RECIPES / "train_mxnet.py", *SMALL, *words)
    assert "12 steps an epoch" in told  # of 192 images
    losses = [float(loss) for loss in re.findall(r"epoch \d/3: loss ([\d.]+), [\d.]+ images/s, data \d+ % of", told)]
    assert len(losses) == 3 and losses[2] < 0.9 * losses[0]
    assert json.loads(told.splitlines()[-1])["validated"] == 4 * VAL


def test_every_epoch_has_every_label_of_several_shards_in_another_order(programs: Path, job: ImageJob) -> None:
    first, second, again, val = json.loads(run(programs, job, "-c", LABELS, *SMALL).splitlines()[-1])
    assert sorted(first) == sorted(second) == sorted([*range(4)] * TRAIN)
    assert sorted(val) == sorted([*range(4)] * VAL)
    assert first == again and first != second


def test_it_continues_from_its_checkpoint(programs: Path, job: ImageJob, tmp_path: Path) -> None:
    path = tmp_path / "at.params"
    words = (*SMALL, "--data", job.pictures, "--checkpoint", path)
    told = run(programs, job, RECIPES / "train_mxnet.py", *words, "--epochs", "2", "--validate-every", "1")
    assert len(re.findall(r"epoch 1/2: .*, accuracy [\d.]+ of 52 images", told)) == 1
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
    more = run(programs, job, RECIPES / "train_mxnet.py", *words)  # of three epochs
    assert re.findall(r"epoch (\d)/3", more) == ["3"]
    path.unlink()
    run(programs, job, RECIPES / "train_mxnet.py", *words, "--epochs", "1")
    done, steps, before, after, rates = json.loads(run(programs, job, "-c", CONTINUED, *words).splitlines()[-1])
    assert (done, steps) == (1, 12)
    assert before == pytest.approx(rates[11]) and after == pytest.approx(rates[23])


@pytest.mark.parametrize("flaw", ["truncated", "other classes"])
def test_a_checkpoint_that_does_not_fit_is_named_in_one_line(
    programs: Path, job: ImageJob, tmp_path: Path, flaw: str
) -> None:
    path = tmp_path / "at.params"
    words = (RECIPES / "train_mxnet.py", "resnet50", "--synthetic", "tiny", "--checkpoint", path)
    run(programs, job, *words, "--epochs", "1", "--warmup-epochs", "0", "--global-batch", "128")
    if flaw == "truncated":
        path.write_bytes(path.read_bytes()[:1000])
    said = run(programs, job, *words, *(["--classes", "5"] if flaw == "other classes" else []), code=1)
    assert said.startswith(f"{path}: is no complete checkpoint of this program, or of another --width or --classes: ")
