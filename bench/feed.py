"""What one CPU feeds: each loader's CPU time for an image, beside the time of decoding alone the same images.

The loaders need packages that .venv lacks. `--python PYTHON...` names Pythons that have them: the first one that has
all modules of a loader runs it, and a loader without one is skipped with a line.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path

from bench import photos
from bench.figures import Figure
from bench.loaders import LOADERS
from bench.measure import medians

IMAGES, SHARDS = 480, 4
ROOT = Path(__file__).parents[1]
FLOOR = "decoding alone"
TARS = ("gpucluster_train.tars", "tarfile")
GOALS = {"gpucluster_train.images": (1.35, "decoding and 35 %")}
TAR_GOAL = (0.2, "5 times as fast")


def figures(runs: int, pythons: Sequence[str] = ()) -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="gpucluster-bench-") as folder:
        root = Path(folder)
        photos.write(root / "photos", IMAGES)
        for format in ("tar", "tfrecord", "recordio"):
            photos.pack(root / "photos", root / format, SHARDS, format)
        environment = photos.job(root / "job", {"train": root / "tar"})
        chosen = {name: _python_with(modules, pythons) for name, (modules, _) in LOADERS.items()}
        for name in (name for name, python in chosen.items() if not python):
            print(f"skipped: {name}: no --python has {LOADERS[name][0]} (bench/README.md)", file=sys.stderr)
        ways = {name: partial(_ms, python, name, root, environment) for name, python in chosen.items() if python}
        found = medians(ways, runs, warm=False)
    return [*_tar_rows(found), *_rows(found)]


def _rows(found: dict[str, float]) -> list[Figure]:
    if FLOOR not in found:
        return []
    rows = (name for name in found if name not in (FLOOR, *TARS))
    return [
        Figure(f"{name}, an image", "ms", found[name], found[FLOOR], FLOOR, *GOALS.get(name, (None, "")))
        for name in rows
    ]


def _tar_rows(found: dict[str, float]) -> list[Figure]:
    ours, plain = (found[name] for name in TARS)
    return [Figure("the bytes of an image in a tar", "ms", ours, plain, "tarfile in a loop", *TAR_GOAL)]


@cache
def _python_with(modules: str, pythons: Sequence[str]) -> str | None:
    finds = f"import importlib.util as i; raise SystemExit(not all(map(i.find_spec, {modules.split()!r})))"
    for each in (*pythons, sys.executable):
        if subprocess.run([each, "-c", finds], capture_output=True, check=False).returncode == 0:
            return each
    return None


def _ms(python: str, name: str, folder: Path, environment: dict[str, str]) -> float:
    """CPU milliseconds of an image; one thread for each loader, as far as the loader lets itself be told."""
    variables = {
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "CUDA_VISIBLE_DEVICES": "",
    }
    argv = [python, str(ROOT / "bench/loaders.py"), name, str(folder)]
    done = subprocess.run(
        argv, env={**os.environ, **variables, **environment}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(argv)}: exit code {done.returncode}: {done.stderr[-2000:]}")
    ms: float = json.loads(done.stdout.splitlines()[-1])["ms"]
    return ms
