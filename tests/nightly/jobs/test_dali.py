"""DALI from PyPI decodes a channel's shards on the CPUs: nothing is lost or doubled, and the pictures are PIL's.

The same pipeline decodes on a GPU, where tests/gpu/speed.py measures it. Here every part of that program runs, tiny.
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from bed import ROOT, WHEELS
from PIL import Image

from bench import photos
from tests.cuda_toolkit import UV, UV_CACHE
from tests.nightly.jobs.image_job import ImageJob

SUBJECTS = [
    "gpucluster_train/dali.py",
    "gpucluster_train/images.py",
    "gpucluster_train/torch_samples.py",
    "tests/cluster/programs/decode_with_dali.py",
    "tests/gpu/speed.py",
    "tests/nightly/jobs/image_job.py",
    "bench/photos.py",
    "examples/imagenet/*.py",
    "examples/fsdp/train.py",
]
COVERED_BY = "test_imagenet_recipes.py, without DALI"
CLASSES = 43
"""No multiple of the batch. One picture each, so that a label names it."""
SIZES = ((500, 375), (375, 500), (333, 501), (90, 60), (640, 427))


def draw(path: Path, number: int) -> None:
    """Smooth colours. ImageNet has a PNG, grey pictures and CMYK pictures among its JPEGs."""
    noise = random.Random(number).randbytes(3 * 64)
    picture = Image.frombytes("RGB", (8, 8), noise).resize(SIZES[number % len(SIZES)], Image.Resampling.BICUBIC)
    mode = {3: "L", 4: "CMYK"}.get(number, "RGB")
    path.parent.mkdir(parents=True)
    picture.convert(mode).save(path, "PNG" if number == 5 else "JPEG", progressive=number == 6)


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> ImageJob:
    folder = tmp_path_factory.mktemp("job")
    for number in range(CLASSES):
        draw(folder / f"pictures/c{number:02}/a.JPEG", number)
    broken = folder / "pictures/c07/a.JPEG"
    whole = broken.read_bytes()
    contents = {
        "train": whole,
        "truncated": whole[: len(whole) // 2],
        "garbled": whole[:20] + bytes(3000) + b"\xff\xd9",
    }
    for name, content in contents.items():
        broken.write_bytes(content)
        words = ["data", "shard", folder / "pictures", folder / name, "--shards", "5", "--no-check", "--workers", "1"]
        subprocess.run([sys.executable, "-m", "gpucluster.cli", *words], check=True, cwd=ROOT)
    broken.write_bytes(whole)
    variables = photos.job(folder, {**{name: folder / name for name in contents}, "val": folder / "train"})
    return ImageJob(folder / "pictures", variables)


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With torch for CPUs, and with the package that a job would ask for."""
    if not WHEELS.is_dir():
        pytest.skip("make boot downloads the jobs' wheels")
    folder = tmp_path_factory.mktemp("dali")
    package = re.findall(r"nvidia-dali-cuda130==[\d.]+", (ROOT / "gpucluster_train/dali.py").read_text())[0]
    newest = sorted(WHEELS.glob("torch-*+cpu-*.whl"))[-1]
    subprocess.run([*UV, "venv", "--python", sys.executable, folder], check=True)
    argv = [*UV, "pip", "install", "--python", folder / "bin/python", "--find-links", WHEELS, newest, package, "pillow"]
    subprocess.run(argv, check=True, env=os.environ | UV_CACHE)
    return folder / "bin/python"


@pytest.fixture(scope="module")
def found(job: ImageJob, python: Path) -> dict[str, Any]:
    """What the program printed."""
    program = ROOT / "tests/cluster/programs/decode_with_dali.py"
    variables = {**job.variables, "PYTHONPATH": str(ROOT)}
    argv = [python, program, job.pictures]
    done = subprocess.run(argv, env=os.environ | variables, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    said: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return said


pytestmark = pytest.mark.timeout(1800)


def test_an_epoch_has_each_sample_once(found: dict[str, Any]) -> None:
    first, left_early, last = found["labels"]
    assert [len(each) for each in found["labels"]] == [32, 32, 32]  # 43 // 16 batches
    assert all(len(set(each)) == 32 for each in found["labels"])
    assert first != last and first != left_early


def test_centre_crops_are_those_of_pil(found: dict[str, Any]) -> None:
    assert set(found["differences"]) == {str(number) for number in range(CLASSES)}
    assert max(found["differences"].values()) < 2, found["differences"]


def test_a_broken_picture_is_named(found: dict[str, Any]) -> None:
    truncated, garbled = found["errors"]
    assert re.fullmatch(r"sample \d{9}: truncated JPEG: its end marker is missing: .*", truncated)
    assert re.match(r"sample \d{9}: cannot be decoded: ", garbled), garbled
    assert truncated[:16] == garbled[:16]  # the same order, and the same file in it


def test_every_part_of_the_gpus_program_runs_tiny(python: Path, tmp_path: Path) -> None:
    photos.write(tmp_path / "photos", 48)
    photos.pack(tmp_path / "photos", tmp_path / "shards", 4)
    photos.job(tmp_path / "job", {"train": tmp_path / "shards", "val": tmp_path / "shards"})
    argv = [python, ROOT / "tests/gpu/speed.py", tmp_path / "job", "--tiny"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads(done.stdout.splitlines()[-1])
    assert len(rows) == 17
    without = [row["figure"] for row in rows if row["measured"] is None]
    assert without == ["of it, MFU"], done.stdout  # of a CPU, whose peak nobody states
