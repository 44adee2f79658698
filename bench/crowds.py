"""Many nodes that boot at once for one job: all join, and all are gone afterwards."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Sequence

from bench.boots import REST
from bench.figures import Figure
from bench.local_cluster import Cluster, cluster

SIZES = (16, 48)
REPEATS = 10
WHY = "sinfo --list-reasons --long; tail -n 60 /var/log/gpucluster/power.log"
ROW = "  - {{name: crowd, instance_types: [m6i.large], max_nodes: {most}}}\n"


def figures(runs: int, sizes: Sequence[int] = SIZES) -> list[Figure]:
    """runs: of a single node, the floor. sizes: numbers of nodes; each runs ten times. Raises RuntimeError if a node
    does not join, or if an instance is left."""
    with cluster() as made:
        made.write("partitions:\n" + ROW.format(most=max(sizes)) + REST)
        made.up()
        one = statistics.median(_together(made, 1) for _ in range(runs))
        return [_figure(size, [_together(made, size) for _ in range(REPEATS)], one) for size in sizes]


def _figure(size: int, took_s: list[float], one_s: float) -> Figure:
    name = f"{size} nodes at once, {len(took_s)} of {len(took_s)} times"
    return Figure(name=name, unit="s", value=statistics.median(took_s), floor=one_s, floor_name="one node")


def _together(made: Cluster, size: int) -> float:
    """Seconds from the job's submission to its end, with the boots of all its nodes."""
    began = time.monotonic()
    try:
        joined = made.ssh(f"srun --partition=crowd --nodes={size} hostname").split()
    except RuntimeError as error:
        raise RuntimeError(f"{error}{made.ssh(WHY)}") from None
    took_s = time.monotonic() - began
    print(f"{size} nodes: {len(set(joined))} joined in {took_s:.0f} s", file=sys.stderr)
    if len(set(joined)) != size:
        raise RuntimeError(f"{len(set(joined))} of {size} nodes joined: {' '.join(sorted(joined))}")
    made.power_down(joined)
    return took_s
