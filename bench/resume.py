"""Our ResumeProgram and aws-parallelcluster-node's launch the same 1,000 nodes of one job, in turn with the launch call
alone: the same local cloud, slurmctld, Python and boto3 serve all three."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from bench.figures import Figure
from bench.head import head

NODES = 1000
PARTITION = "train-dy-g5"
"""A name that is one of a partition of ours and of a queue and a compute resource of ParallelCluster's."""
PARALLELCLUSTER = "aws-parallelcluster-node==3.16.1"
GOAL_OF_CPU = 0.5
GOAL_OF_CLOCK = 1.2
Run = Mapping[str, Any]


def figures(runs: int) -> list[Figure]:
    with head(PARTITION, NODES) as made:
        made.install(PARALLELCLUSTER)
        found = made.run("resume", nodes=NODES, runs=runs, partition=PARTITION)
    return compared(found)


def compared(found: Mapping[str, Sequence[Run]]) -> list[Figure]:
    """found: who launches -> its runs."""
    theirs, alone = "ParallelCluster", "alone"
    cpu = {who: _median(found[who], "cpu_s") for who in found}
    clock = {who: _median(found[who], "wall_s") for who in found}
    memory = {who: _median(found[who], "mib") for who in found}
    calls = {who: median(sum(run["calls"].values()) for run in found[who]) for who in found}
    of, launch = f"resume of {NODES} nodes", "the launch call alone"
    peer = {"peer": clock[theirs] / clock[alone], "peer_name": theirs}
    return [
        Figure(f"{of}, CPU", "s", cpu["ours"], cpu[theirs], theirs, GOAL_OF_CPU, "half of it"),
        Figure(f"{of}, CPU", "s", cpu["ours"], cpu[alone], launch, peer=cpu[theirs] / cpu[alone], peer_name=theirs),
        Figure(f"{of}, clock", "s", clock["ours"], clock[alone], launch, GOAL_OF_CLOCK, launch, **peer),  # type: ignore[arg-type]
        Figure(f"{of}, AWS calls", "calls", calls["ours"], calls[theirs], theirs),
        Figure(f"{of}, memory", "MiB", memory["ours"], memory[theirs], theirs),
    ]


def _median(runs: Sequence[Run], what: str) -> float:
    return float(median(run[what] for run in runs))
