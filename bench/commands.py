"""`gpucluster --help` and `gpucluster submit --dry-run`, as processes."""

from __future__ import annotations

import shutil
import tempfile
import venv
from collections.abc import Iterator, Mapping
from pathlib import Path

from bench.figures import PEER_FLOOR_MS, TORCHX_DRY_RUN_MS, TORCHX_HELP_MS, Figure
from bench.measure import Measurement, cpu_ms, medians

SUBMIT = ("submit", "--dry-run", "--nodes", "2", "--launcher", "horovodrun", "--", "python", "train.py")
TORCHX_SUBMIT = ("run", "--dryrun", "-s", "slurm", "dist.ddp", "-j", "2x4", "--script", "train.py")
OF_TORCHX = 0.9
"""The share of torchx's time that `submit --dry-run` may take in the same run."""


def figures(runs: int) -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, symlinks=True)
        times = medians(_measurements(Path(folder) / "bin" / "python"), runs)
    return [
        _figure("gpucluster --help", "help", 60, TORCHX_HELP_MS, times),
        _figure("submit --dry-run", "submit", 150, TORCHX_DRY_RUN_MS, times),
        *_against_torchx(times),
    ]


def _measurements(bare_python: Path) -> dict[str, Measurement]:
    """The floor is the interpreter of an empty virtual environment, where the peers' was measured too: what the .pth
    files of ours cost at every start is part of the figure, as it is part of what a user waits for."""
    commands: dict[str, tuple[str, ...]] = {
        "floor": (str(bare_python), "-c", "pass"),
        "help": ("gpucluster", "--help"),
        "submit": ("gpucluster", *SUBMIT),
    }
    if shutil.which("torchx"):
        commands |= {"torchx help": ("torchx", "--help"), "torchx submit": ("torchx", *TORCHX_SUBMIT)}
    return {name: lambda argv=argv: cpu_ms(argv) for name, argv in commands.items()}  # type: ignore[misc]


def _against_torchx(times: Mapping[str, float]) -> Iterator[Figure]:
    if floor := times.get("torchx submit"):
        yield Figure(
            name="submit --dry-run",
            unit="ms",
            value=times["submit"],
            floor=floor,
            floor_name="torchx run --dryrun",
            goal=OF_TORCHX,
            goal_text="torchx, this run",
        )


def _figure(name: str, key: str, goal_ms: float, published_ms: float, times: Mapping[str, float]) -> Figure:
    measured = times.get(f"torchx {key}")
    peer = measured / times["floor"] if measured else published_ms / PEER_FLOOR_MS
    return Figure(
        name=name,
        unit="ms",
        value=times[key],
        floor=times["floor"],
        floor_name="python -c pass",
        goal=goal_ms / PEER_FLOOR_MS,
        goal_text=f"{goal_ms:g} ms where the floor is {PEER_FLOOR_MS:g}",
        peer=peer,
        peer_name="torchx, this run" if measured else "torchx, published",
    )
