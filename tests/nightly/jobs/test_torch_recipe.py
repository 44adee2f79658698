"""The torch recipe in a Python like the nodes', without a cluster: from shards and from a folder, two ranks each.

test_recipes.py runs it on booted nodes, at the tiny size.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from bed import ROOT

from tests.nightly.jobs import image_job
from tests.nightly.jobs.image_job import TRAIN, VAL, ImageJob

SUBJECTS = [
    "examples/imagenet/*",
    "gpucluster_train/data_parallel.py",
    "gpucluster_train/images.py",
    "gpucluster_train/streams.py",
    "gpucluster_train/torch_samples.py",
    "tests/cluster/programs/recipe_checks.py",
    "tests/nightly/jobs/image_job.py",
    "bench/photos.py",
    "bootstrap/environments/horovod.txt",
]
COVERED_BY = "test_imagenet_recipes.py, without torch"
RECIPE = ROOT / "examples" / "imagenet" / "train_torch.py"
SMALL = (
    "resnet50", "--image-size", "32", "--classes", "4", "--width", "0.125", "--global-batch", "16", "--workers", "2",
    "--learning-rate", "0.05", "--reference-batch", "64", "--warmup-epochs", "0.5", "--weight-decay", "0",
)  # fmt: skip
EPOCH = re.compile(r"epoch (\d+)/\d+: loss ([\d.]+), [\d.]+ images/s, data \d+ % of [\d.]+ s, next rate [\d.e-]+(.*)")

pytestmark = pytest.mark.timeout(1800)


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> ImageJob:
    return image_job.make(tmp_path_factory.mktemp("job"), "tar", ranks=2)


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The environment of torch and Horovod, with torchvision as a job adds it."""
    return image_job.environment(tmp_path_factory.mktemp("python"), "horovod", "horovod", packages=["torchvision"])


@dataclass
class Run:
    code: int
    log: str
    losses: list[str] = field(default_factory=list)
    curve: list[str] = field(default_factory=list)
    """What follows the rate on each epoch's line."""

    @property
    def report(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.log[self.log.index("{") : self.log.rindex("}") + 1])
        return found


LAUNCHERS = {
    "": ("python",),
    "torchrun": ("torchrun", "--nproc-per-node", "2", "--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0"),
    "horovodrun": ("horovodrun", "--gloo", "-np", "2", "python"),
}


def environment(programs: Path, launcher: str, job: ImageJob | None = None) -> dict[str, str]:
    variables = {"PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    if launcher:
        variables["GPUCLUSTER_LAUNCHER"] = launcher
    return {**os.environ, **variables, **(job.variables if job else {})}


def run(programs: Path, launcher: str, *words: object, job: ImageJob | None = None) -> Run:
    argv, variables = [*LAUNCHERS[launcher], RECIPE, *words], environment(programs, launcher, job)
    done = subprocess.run(
        argv, env=variables, capture_output=True, text=True, timeout=900, check=False, cwd=RECIPE.parent
    )
    log = done.stdout + done.stderr
    epochs = EPOCH.findall(log)
    return Run(done.returncode, log, [loss for _, loss, _ in epochs], [rest for _, _, rest in epochs])


def test_torchrun_and_horovodrun_train_alike_from_shards(programs: Path, job: ImageJob) -> None:
    found = [
        run(programs, name, *SMALL, "--epochs", "3", "--validate-every", "1", job=job)
        for name in ("torchrun", "horovodrun")
    ]
    assert [each.code for each in found] == [0, 0], "\n".join(each.log for each in found)
    one, other = found
    assert len(one.losses) == 3 and one.losses == other.losses
    assert float(one.losses[-1]) < float(one.losses[0])
    assert one.report["validated"] == 4 * VAL
    assert one.report["accuracy"] == other.report["accuracy"]
    assert all(re.fullmatch(r", accuracy [\d.]+ of 52 images", each) for each in one.curve[:2]), one.curve
    assert "12 steps an epoch" in one.log  # of 192 images


def test_a_training_from_a_folder_goes_on_from_its_checkpoint(programs: Path, job: ImageJob, tmp_path: Path) -> None:
    words = ("--data", job.pictures, "--compress", "--checkpoint", tmp_path / "at.pt")
    first = run(programs, "torchrun", *SMALL, "--epochs", "3", *words)
    assert first.code == 0, first.log
    again = run(programs, "torchrun", *SMALL, "--epochs", "3", *words)
    assert again.code == 0, again.log
    assert (len(first.losses), len(again.losses)) == (3, 0)
    assert again.report["accuracy"] == first.report["accuracy"]
    assert [path.name for path in tmp_path.iterdir()] == ["at.pt"]


def test_b4_trains_with_everything_that_its_recipe_has(programs: Path) -> None:
    words = ("--mixup", "0.2", "--ema-decay", "0.9", "--label-smoothing", "0.1", "--precision", "bf16")
    done = run(programs, "", "efficientnet-b4", "--synthetic", "tiny", "--epochs", "4", *words)
    assert done.code == 0, done.log
    assert float(done.losses[-1]) < float(done.losses[0])
    assert done.report["validated"] == 128


def test_a_training_that_is_killed_while_it_writes_its_checkpoint(
    programs: Path, job: ImageJob, tmp_path: Path
) -> None:
    """A pipe in the place of the new file: its writer waits in the middle, for as long as nobody reads on."""
    path, new = tmp_path / "at.pt", tmp_path / "at.pt.new"
    words = (*SMALL, "--data", job.pictures, "--checkpoint", path)
    assert run(programs, "horovodrun", *words, "--epochs", "1").code == 0
    os.mkfifo(new)
    argv = [*LAUNCHERS["horovodrun"], RECIPE, *words, "--epochs", "3"]
    with subprocess.Popen(argv, env=environment(programs, "horovodrun"), cwd=RECIPE.parent) as job_of_two:
        with new.open("rb") as file:
            part = file.read(1000)
            (writer,) = users_of(new)
            os.kill(writer, signal.SIGKILL)
        assert job_of_two.wait(300) != 0
    new.unlink()
    new.write_bytes(part)
    again = run(programs, "horovodrun", *words, "--epochs", "2")
    assert again.code == 0, again.log
    assert f"continues after epoch 1 of {path}" in again.log
    assert (len(again.losses), [each.name for each in tmp_path.iterdir()]) == (1, ["at.pt"])


def users_of(path: Path) -> list[int]:
    """The other processes that have it open."""
    found = []
    for process in {int(each) for each in os.listdir("/proc") if each.isdigit()} - {os.getpid()}:
        with contextlib.suppress(OSError):  # it may just have ended
            links = [os.readlink(f"/proc/{process}/fd/{each}") for each in os.listdir(f"/proc/{process}/fd")]
            found += [process] if str(path) in links else []
    return found


@pytest.mark.parametrize("launcher", ["", "horovodrun"])
def test_a_broken_picture_is_named_in_one_line(programs: Path, job: ImageJob, tmp_path: Path, launcher: str) -> None:
    for part in ("train", "val"):
        for path in sorted((job.pictures / part).rglob("*.JPEG")):
            target = tmp_path / path.relative_to(job.pictures)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    broken = tmp_path / "train" / "c1" / "9.JPEG"
    broken.write_bytes(broken.read_bytes()[:-40])
    done = run(programs, launcher, *SMALL, "--epochs", "1", "--data", tmp_path)
    assert done.code == 1
    said = rf"^(\[\d\]<stderr>:|)error: {re.escape(str(broken))}: cannot be decoded: .*truncated"
    (rank,) = re.findall(said, done.log, re.MULTILINE)
    assert f"\n{rank}Traceback" not in done.log  # the other rank has one of Horovod's, because this one has ended


def test_a_run_with_other_ranks_continues_with_its_own_rate(programs: Path, job: ImageJob, tmp_path: Path) -> None:
    words = (*SMALL, "--data", job.pictures, "--checkpoint", tmp_path / "at.pt")
    first = run(programs, "torchrun", *words, "--epochs", "2")
    assert first.code == 0, first.log
    again = run(programs, "", *words, "--epochs", "3", "--global-batch", "8")
    assert f"continues after epoch 2 of {tmp_path}/at.pt" in again.log
    assert (again.code, len(again.losses)) == (0, 1), again.log
    assert "next rate 1e-05" in again.log  # the end of the schedule of this run, which has twice as many steps


def test_too_few_classes_are_refused_before_the_training(programs: Path, job: ImageJob) -> None:
    done = run(programs, "", *SMALL, "--classes", "3", "--epochs", "1", job=job)
    assert "argument --classes: 3 are too few: the channel train has 4, so leave it out" in done.log
    assert "Traceback" not in done.log


def test_a_checkpoint_that_does_not_fit_is_named_in_one_line(programs: Path, tmp_path: Path) -> None:
    tiny, path = ("--synthetic", "tiny", "--width", "0.0625", "--checkpoint", tmp_path / "at.pt"), tmp_path / "at.pt"
    assert run(programs, "", "resnet50", *tiny, "--epochs", "2").code == 0
    done = run(programs, "", "resnet50", *tiny, "--epochs", "3", "--classes", "5")
    assert f"{path}: the checkpoint is of another model" in done.log and "Traceback" not in done.log
    path.write_bytes(path.read_bytes()[:1000])
    done = run(programs, "", "resnet50", *tiny, "--epochs", "3")
    assert f"{path}: is no complete checkpoint" in done.log and "Traceback" not in done.log


@pytest.fixture(scope="module")
def checks(programs: Path, job: ImageJob) -> dict[str, Any]:
    program = ROOT / "tests/cluster/programs/recipe_checks.py"
    variables = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    argv = [programs / "python", program, job.pictures]
    done = subprocess.run(argv, env=os.environ | variables, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_the_networks_are_torchvisions(checks: dict[str, Any]) -> None:
    assert {name: each["parameters"] for name, each in checks["networks"].items()} == {
        "resnet50": 25557032,
        "efficientnet-b0": 5288548,
        "efficientnet-b4": 19341616,
    }
    assert all(each["deviates"] and each["equal"] for each in checks["networks"].values())


def test_images_are_in_channels_last_and_gradients_are_not(checks: dict[str, Any]) -> None:
    """Horovod refuses gradients in channels_last: "Tensor is required to be contiguous"."""
    layouts = checks["layouts"]
    assert layouts["in_channels_last"] == layouts["convolutions"] == 53
    assert layouts["contiguous_gradients"] and layouts["normalised"]


def test_a_step_waits_for_no_gpu(checks: dict[str, Any]) -> None:
    assert checks["steps"] == [3, 3]


def test_the_moving_average_has_weights_and_the_statistics_that_fit_them(checks: dict[str, Any]) -> None:
    assert checks["moving_average"]


def test_rmsprop_adds_its_epsilon_inside_the_root(checks: dict[str, Any]) -> None:
    deviation, last = checks["rmsprop"]
    assert deviation < 1e-6 and last == pytest.approx(0.0316, rel=0.01)


def test_compression_keeps_small_gradients_without_half_precision(checks: dict[str, Any]) -> None:
    assert checks["compressed"] == pytest.approx(1e-8, rel=0.01)


def test_a_checkpoint_is_written_while_the_training_goes_on(checks: dict[str, Any]) -> None:
    found = checks["checkpoint"]
    assert not found["waited"] and found["saved"] == [0, 0, 0, 0]
    assert found["failure"].endswith("none/at.pt: the checkpoint cannot be written: No such file or directory")


def test_each_image_of_a_folder_is_validated_once(checks: dict[str, Any]) -> None:
    found = checks["folder"]
    assert sum(found["validated"]) == found["count"] == 4 * TRAIN
    assert found["batches"] == [5] * (found["of_a_rank"] // 5)  # of three workers
    assert found["other_classes"].startswith("c0: this class is only in one of train/ and val/")


def test_pictures_that_cannot_be_decoded(checks: dict[str, Any]) -> None:
    said = checks["decoders"]
    assert "image file is truncated" in said["truncated"]
    assert said["empty"].startswith("train/c0/7.JPEG: cannot be decoded: it is empty: replace the file")
    assert said["text"].startswith("train/c0/7.JPEG: cannot be decoded: it is no picture that Pillow knows")


def test_labels_that_the_network_does_not_have(checks: dict[str, Any]) -> None:
    fits, beyond, word = checks["labels"]
    assert fits == ""
    assert beyond == "sample 000000007: its label is 3; required: from 0 to 2, because the network has 3 classes"
    assert word.startswith("sample 000000007: its cls is b'cat'; required: ")
