"""`gpucluster data shard` on 20,000 JPEGs, against the loop that one would write and against webdataset's writer.

Whole processes, from a warm page cache to a disk: their CPU time, which says what an image costs on a busy machine too,
and the time by the clock, which is what several processes are for. Ours looks at each image's end and hashes shards;
the others do neither.
"""

from __future__ import annotations

import importlib.util
import io
import os
import random
import shutil
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median

from bench.figures import Figure
from bench.measure import cpu_ms

IMAGES, CLASSES, SHARDS = 20_000, 100, 20
SIDE = 128
Times = tuple[float, float]
"""Seconds: of CPU, and by the clock."""
DISTINCT = 64
"""Number of images that are encoded; the others are copies with another comment, which does not matter here."""


def figures(runs: int) -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="gpucluster-bench-") as folder:
        root = Path(folder)
        generate(root / "images")
        ways = _ways(str(root / "images"))
        times = _medians({name: _timed(root / "out", *argv) for name, argv in ways.items()}, runs)
    return [
        _figure(f"{IMAGES} JPEGs to {name}, {kind}", {way: time[number] for way, time in times.items()}, name)
        for number, kind in enumerate(("CPU", "clock"))
        for name in times
        if name not in PEERS
    ]


def _figure(title: str, seconds: Mapping[str, float], name: str) -> Figure:
    peer = seconds["webdataset"] / seconds["plain"] if "webdataset" in seconds else None
    return Figure(title, "s", seconds[name], seconds["plain"], "tarfile in a loop", peer=peer, peer_name="webdataset")


def _medians(measurements: Mapping[str, Callable[[], Times]], runs: int) -> dict[str, Times]:
    """In turn; one run of each warms caches and is not counted."""
    seen: dict[str, list[Times]] = {name: [] for name in measurements}
    for measure in measurements.values():
        measure()
    for _ in range(runs):
        for name, measure in measurements.items():
            seen[name].append(measure())
    return {
        name: (median(each[0] for each in times), median(each[1] for each in times)) for name, times in seen.items()
    }


def _ours() -> dict[str, tuple[str, ...]]:
    """Name -> what is given to the verb."""
    cpus = len(os.sched_getaffinity(0))
    several = {
        f"{format}, {cpus} processes": ("--workers", str(cpus), "--format", format)
        for format in ("tar", "tfrecord", "recordio")
    }
    return {"tar, 1 process": ("--workers", "1"), **(several if cpus > 1 else {})}


def _ways(source: str) -> dict[str, tuple[str, ...]]:
    """Name -> the command without its target."""
    peer = (sys.executable, "-m", "bench.shards")
    found: dict[str, tuple[str, ...]] = {"plain": (*peer, "plain", source)}
    if importlib.util.find_spec("webdataset"):
        found["webdataset"] = (*peer, "webdataset", source)
    verb = (sys.executable, "-m", "gpucluster.cli", "data", "shard", source, "--shards", str(SHARDS))
    return found | {name: (*verb, *words) for name, words in _ours().items()}


def _timed(target: Path, *argv: str) -> Callable[[], Times]:
    def measure() -> Times:
        shutil.rmtree(target, ignore_errors=True)
        began = time.perf_counter()
        cpu_s = cpu_ms([*argv, str(target)]) / 1000
        return cpu_s, time.perf_counter() - began

    return measure


def generate(folder: Path, count: int = IMAGES) -> None:
    """CLASS/NUMBER.jpg: noise on a gradient, about 9 KiB each."""
    from PIL import Image

    draw = random.Random(0)
    pictures = []
    for _ in range(DISTINCT):
        noise = Image.frombytes("RGB", (SIDE, SIDE), draw.randbytes(3 * SIDE * SIDE))
        gradient = Image.linear_gradient("L").resize((SIDE, SIDE)).convert("RGB")
        packed = io.BytesIO()
        Image.blend(gradient, noise, 0.4).save(packed, "JPEG", quality=85)
        pictures.append(packed.getvalue())
    for number in range(count):
        path = folder / f"c{number % CLASSES:03d}" / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        comment = b"%012d" % number
        picture = pictures[number % DISTINCT]
        path.write_bytes(picture[:2] + b"\xff\xfe" + (len(comment) + 2).to_bytes(2) + comment + picture[2:])


def _samples(source: Path) -> list[tuple[Path, int]]:
    """As one would list and shuffle them."""
    folders = sorted(path for path in source.iterdir())
    samples = [(path, label) for label, folder in enumerate(folders) for path in sorted(folder.iterdir())]
    random.Random(0).shuffle(samples)
    return samples


def plain(source: Path, target: Path) -> None:
    target.mkdir()
    samples = _samples(source)
    for shard in range(SHARDS):
        with tarfile.open(target / f"train-{shard:06d}.tar", "w") as tar:
            for number in range(shard, len(samples), SHARDS):
                path, label = samples[number]
                for suffix, content in (("jpg", path.read_bytes()), ("cls", str(label).encode())):
                    entry = tarfile.TarInfo(f"{number:09d}.{suffix}")
                    entry.size = len(content)
                    tar.addfile(entry, io.BytesIO(content))


def webdataset(source: Path, target: Path) -> None:
    from webdataset import ShardWriter  # type: ignore[import-not-found]

    target.mkdir()
    with ShardWriter(f"{target}/train-%06d.tar", maxcount=IMAGES // SHARDS, verbose=0) as writer:
        for number, (path, label) in enumerate(_samples(source)):
            writer.write({"__key__": f"{number:09d}", "jpg": path.read_bytes(), "cls": label})


PEERS: dict[str, Callable[[Path, Path], None]] = {"plain": plain, "webdataset": webdataset}

if __name__ == "__main__":
    PEERS[sys.argv[1]](Path(sys.argv[2]), Path(sys.argv[3]))
