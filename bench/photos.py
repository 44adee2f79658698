"""Pictures like photos, and shards of them, for the groups of figures that decode.

Photos have as much energy in each octave of detail: noise whose spectrum falls as 1/f, with related colours. The sizes
are those around ImageNet's mean of 500x375, and a file has about 110 KB at quality 90.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SIZES = (
    *((500, 375), (375, 500), (500, 333), (333, 500), (500, 400), (400, 500)),
    *((480, 360), (640, 427), (427, 640), (512, 384), (600, 400), (400, 300)),
)
QUALITY = 90
DISTINCT = 48
"""Pictures that are drawn; the others are copies with another comment, which take as long to decode."""
CLASSES = 10


def draw(size: tuple[int, int], seed: int) -> bytes:
    """A JPEG."""
    import numpy as np
    from PIL import Image

    width, height = size
    random = np.random.default_rng(seed)
    frequencies = np.hypot(np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width)[None])
    frequencies[0, 0] = 1

    def layer() -> Any:
        return np.fft.irfft2(np.fft.rfft2(random.standard_normal((height, width))) / frequencies, (height, width))

    light = layer()
    colours = np.stack([light + 0.4 * layer() for _ in range(3)], axis=-1)
    colours = 128 + 42 * (colours - colours.mean()) / colours.std()
    packed = io.BytesIO()
    Image.fromarray(colours.clip(0, 255).astype("uint8")).save(packed, "JPEG", quality=QUALITY)
    return packed.getvalue()


def write(folder: Path, count: int) -> None:
    """folder/CLASS/NUMBER.jpg"""
    drawn = [draw(SIZES[number % len(SIZES)], number) for number in range(min(DISTINCT, count))]
    for number in range(count):
        path = folder / f"c{number % CLASSES:03d}" / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        picture, comment = drawn[number % len(drawn)], b"%012d" % number
        path.write_bytes(picture[:2] + b"\xff\xfe" + (len(comment) + 2).to_bytes(2, "big") + comment + picture[2:])


def pack(source: Path, target: Path, shards: int, format: str = "tar") -> None:
    """With our own verb."""
    verb = [sys.executable, "-m", "gpucluster.cli", "data", "shard", str(source), str(target)]
    subprocess.run([*verb, "--shards", str(shards), "--format", format], check=True, stdout=subprocess.DEVNULL)


def job(
    folder: Path, sources: Mapping[str, Path], *, shard: Mapping[str, str] | None = None, ranks: int = 1
) -> dict[str, str]:
    """Makes the folder of a job of one node with these channels, as the job's script leaves it to the ranks. Returns
    what the folder adds to their environment. `shard`: of the channels that are not by-rank."""
    asked = {
        name: {"source": str(path), "shard": (shard or {}).get(name, "by-rank"), "mode": "mount", "unpack": "none"}
        for name, path in sources.items()
    }
    (folder / "channels").mkdir(parents=True)
    (folder / "channels/nodes.txt").write_text("here\n")
    (folder / "channels.json").write_text(json.dumps(asked))
    variables = {"GPUCLUSTER_JOB_DIR": str(folder), "GPUCLUSTER_NODE": "here"}
    prepare = [sys.executable, "-m", "gpucluster_train.prepare"]
    subprocess.run(
        prepare, check=True, stdout=subprocess.DEVNULL, env={**os.environ, **variables, "WORLD_SIZE": str(ranks)}
    )
    return variables
