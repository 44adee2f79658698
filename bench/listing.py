"""`gpucluster jobs` as a process, with 5,000 jobs that have ended beside 20. It connects by SSH to this process,
where a squeue prints a file. What AWS answers is given; its clients are made."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import venv
from collections.abc import Mapping
from pathlib import Path

from bench.figures import PEER_FLOOR_MS, Figure
from bench.measure import Measurement, cpu_ms, medians

ROOT = Path(__file__).parents[1]
MANY, FEW = 5000, 20
GOAL_MS = 1000.0
GOAL_OF_FEW = 1.1
LINE = "{0}|COMPLETED|train|1|train-1|0:04|1:00:00|2026-11-23T06:00:00|2026-11-23T06:01:00|digits|None\n"
RESULT = {"exit_code": 0, "nodes": 1, "node_list": ["train-1"], "failed_rank": None, "reason": None}
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_DEFAULT_REGION": "us-east-1"}


def figures(runs: int) -> list[Figure]:
    sys.path.insert(0, str(ROOT / "tests/unit/cluster"))
    from ssh_head import running_head  # type: ignore[import-not-found]

    with tempfile.TemporaryDirectory() as name, running_head() as head:
        head.takes = lambda key: True
        folder = Path(name)
        venv.create(folder / "venv", symlinks=True)
        _head(folder)
        os.environ["PATH"] = f"{folder / 'bin'}:{os.environ['PATH']}"
        door = (head.tunnel_url(), " ".join(head.published.split()[:2]))
        times = medians(
            {
                "floor": lambda: cpu_ms([str(folder / "venv/bin/python"), "-c", "pass"]),
                "few": _listing(folder, door, FEW),
                "many": _listing(folder, door, MANY),
            },
            runs,
        )
    return _figures(times)


def _figures(times: Mapping[str, float]) -> list[Figure]:
    shared = {"name": f"jobs, {MANY:,} ended", "unit": "ms", "value": times["many"]}
    return [
        Figure(
            **shared,  # type: ignore[arg-type]
            floor=times["floor"],
            floor_name="python -c pass",
            goal=GOAL_MS / PEER_FLOOR_MS,
            goal_text=f"{GOAL_MS:g} ms where the floor is {PEER_FLOOR_MS:g}",
        ),
        Figure(
            **shared,  # type: ignore[arg-type]
            floor=times["few"],
            floor_name=f"with {FEW} ended",
            goal=GOAL_OF_FEW,
            goal_text="the same",
        ),
    ]


def _listing(folder: Path, door: tuple[str, str], count: int) -> Measurement:
    words = ["jobs", "--json", "-c", str(ROOT / "cluster.yaml")]
    argv = [sys.executable, "-m", "bench.answered", *door, str(folder / str(count)), *words]

    def measure() -> float:
        (folder / "queue").write_text("".join(map(LINE.format, range(1, count + 1))))
        return cpu_ms(argv, CREDENTIALS)

    return measure


def _head(folder: Path) -> None:
    (folder / "bin").mkdir()
    (folder / "bin" / "squeue").write_text(f"#!/bin/sh\nexec cat {folder / 'queue'}\n")
    (folder / "bin" / "squeue").chmod(0o755)
    for count in (FEW, MANY):
        by_id = folder / str(count) / "by-id"
        by_id.mkdir(parents=True)
        (folder / str(count) / "digits-20261123-060000-abcd").mkdir()
        (folder / str(count) / "digits-20261123-060000-abcd" / "result.json").write_text(json.dumps(RESULT))
        for number in range(1, count + 1):
            (by_id / str(number)).symlink_to("../digits-20261123-060000-abcd")
