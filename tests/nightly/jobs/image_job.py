"""What a job of the image recipes finds on its node, without a cluster: pictures, channels, and the node's Python."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from bed import ROOT, WHEELS
from PIL import Image

from bench import photos
from tests.cuda_toolkit import UV, UV_CACHE

TRAIN, VAL = 48, 13
"""Images of each class. Two ranks do not share 52 images for validation in whole batches."""


def draw(folder: Path) -> None:
    """Noise over one coarse picture for each class, as JPEGs; in training also a PNG, a grey and a CMYK one."""
    of = random.Random(1)
    coarse = [of.randbytes(3 * 16) for _ in range(4)]
    for part, count in (("train", TRAIN), ("val", VAL)):
        for number in range(4 * count):
            kind = number % 4
            noise = Image.frombytes("RGB", (64, 48), of.randbytes(3 * 64 * 48))
            base = Image.frombytes("RGB", (4, 4), coarse[kind]).resize((64, 48), Image.Resampling.NEAREST)
            picture = Image.blend(base, noise, 0.3)
            mode = {5: "L", 6: "CMYK"}.get(number, "RGB") if part == "train" else "RGB"
            path = folder / part / f"c{kind}" / f"{number}.JPEG"
            path.parent.mkdir(parents=True, exist_ok=True)
            picture.convert(mode).save(path, "PNG" if (part, number) == ("train", 7) else "JPEG")


def pack(pictures: Path, shards: Path, kind: str) -> None:
    """`gpucluster data shard`, as a user runs it."""
    words = ["data", "shard", pictures, shards, "--format", kind, "--shards", "train=6,val=3", "--workers", "1"]
    subprocess.run([sys.executable, "-m", "gpucluster.cli", *words, "--no-check"], check=True, cwd=ROOT)


@dataclass(frozen=True)
class ImageJob:
    pictures: Path
    """train/CLASS/NUMBER.JPEG, and val."""
    variables: dict[str, str]
    """What its ranks find in their environment."""


def make(folder: Path, kind: str, *, ranks: int, val: str = "by-node") -> ImageJob:
    """Pictures, their shards in this format, and a job that has these as its channels train and val."""
    pictures, shards = folder / "pictures", folder / "shards"
    draw(pictures)
    pack(pictures, shards, kind)
    sources = {name: shards / name for name in ("train", "val")}
    return ImageJob(pictures, photos.job(folder, sources, shard={"train": "by-node", "val": val}, ranks=ranks))


def environment(folder: Path, name: str, *more: str, packages: Sequence[str] = ()) -> Path:
    """The nodes' environment of this name, from the wheels that they install from: its folder bin.

    `more`: the names of folders of wheels that are of this environment alone. `packages`: what a job adds.
    """
    if not WHEELS.is_dir():
        pytest.skip("make boot downloads the jobs' wheels")
    lock = folder / "lock.txt"
    lines = (ROOT / f"bootstrap/environments/{name}.txt").read_text().splitlines()
    lock.write_text("\n".join(line for line in lines if re.match("[a-z]", line)))
    subprocess.run([*UV, "venv", "--python", sys.executable, folder / "venv"], check=True)
    links = [word for each in (".", *more) for word in ("--find-links", WHEELS / each)]
    argv = [*UV, "pip", "install", "--python", folder / "venv/bin/python", "--no-deps", "--no-index", *links]
    subprocess.run([*argv, "-r", lock, *packages], check=True, env=os.environ | UV_CACHE)
    return folder / "venv" / "bin"
