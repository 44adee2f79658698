"""What a job of the image recipes finds on its node, without a cluster: pictures, channels, and the node's Python."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest
from bed import ROOT, WHEELS
from PIL import Image

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


def channels(job: Path, shards: Path, *, ranks: int, val: str = "by-node") -> None:
    """The channels train and val in the job's folder, as the job's script leaves them to the ranks."""
    asked = {"train": "by-node", "val": val}
    found = {
        name: {"shard": shard, "mode": "mount", "unpack": "none", "source": str(shards / name)}
        for name, shard in asked.items()
    }
    (job / "channels").mkdir(parents=True)
    (job / "channels/nodes.txt").write_text("n0\n")
    (job / "channels.json").write_text(json.dumps(found))
    variables = os.environ | {"GPUCLUSTER_JOB_DIR": str(job), "WORLD_SIZE": str(ranks)}
    subprocess.run([sys.executable, "-m", "gpucluster_train.prepare"], check=True, cwd=ROOT, env=variables)


def environment(folder: Path, name: str, *more: str) -> Path:
    """The nodes' environment of this name, from the wheels that they install from: its folder bin.

    `more`: the names of folders of wheels that are of this environment alone.
    """
    if not WHEELS.is_dir():
        pytest.skip("make boot downloads the jobs' wheels")
    lock = folder / "lock.txt"
    lines = (ROOT / f"bootstrap/environments/{name}.txt").read_text().splitlines()
    lock.write_text("\n".join(line for line in lines if re.match("[a-z]", line)))
    subprocess.run([*UV, "venv", "--python", sys.executable, folder / "venv"], check=True)
    links = [word for each in (".", *more) for word in ("--find-links", WHEELS / each)]
    argv = [*UV, "pip", "install", "--python", folder / "venv/bin/python", "--no-deps", "--no-index", *links]
    subprocess.run([*argv, "-r", lock], check=True, env=os.environ | UV_CACHE)
    return folder / "venv" / "bin"
