"""slurmctld with 5,000 elastic nodes, of which 100 boot: with our programs, and while our programs are stopped."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from statistics import median

from bench.figures import Figure
from bench.head import head

NODES = 5000
LAUNCHING = {"launching": 5, "nodes_of_job": 20}
TURNS, SECONDS = 4, 10
"""Turns with our programs, and as many without. reconcile looks every 5 s, and at once when it continues. They may not
submit 10,000 jobs together: slurmctld takes no more."""
GOAL = 1 / 0.9
BARE = "without our programs"


def figures(runs: int) -> list[Figure]:
    """Each run has several turns of each."""
    seen = []
    with head("train", NODES) as made:
        for _ in range(max(1, runs // TURNS)):
            seen.append(made.run("slurmctld", **LAUNCHING, turns=TURNS, seconds=SECONDS))
            print(seen[-1], file=sys.stderr)
    return [each for command in ("sbatch", "squeue") for each in _of(command, [run[command] for run in seen])]


def _of(command: str, runs: Sequence[dict[str, list[list[float]]]]) -> list[Figure]:
    turns = {who: [turn for run in runs for turn in run[who]] for who in ("ours", "bare")}
    """CPU for our programs: theirs, and slurmctld's for its answers to them."""
    clock = {who: median(1000 / turn[0] for turn in turns[who]) for who in turns}
    cpu = {who: median(1000 * turn[1] for turn in turns[who]) for who in turns}
    percent = 100 * median(
        ours_s + rate * (slurmctld_s - cpu["bare"] / 1000) for rate, slurmctld_s, ours_s in turns["ours"]
    )
    cores = os.cpu_count() or 1
    name = f"{command}, {NODES} nodes"
    return [
        Figure(f"{name}, clock", "ms", clock["ours"], clock["bare"], BARE, GOAL, "0.9 of the rate"),
        Figure(f"{name}, slurmctld's CPU", "ms", cpu["ours"], cpu["bare"], BARE),
        Figure(f"{name}, CPU for our programs", "%", percent, 100 * cores, f"{cores} cores", 0.1, "leaves 0.9"),
    ]
