"""From `gpucluster submit` to the first rank's line, on nodes that boot for the job, against the boot of these nodes.

The nodes are gone before the next turn: idle nodes would take part of this machine's CPU time, which they do not on
AWS. The job needs no Python environment: the cluster's first job would wait for that once. The ranks print the time, so
that it does not count how the log reaches the client.
"""

from __future__ import annotations

import re
import statistics
import sys
import time
from dataclasses import dataclass

from bench.boots import REST
from bench.figures import Figure
from bench.local_cluster import Cluster, cluster

NODES = 2
GOAL = 1.3
PYTHON = "/home/plain"
PARTITION = "cold"
_PRINTED = re.compile(r"\] (\d{10}\.\d+)")


@dataclass(frozen=True)
class Seconds:
    to_launch: float
    boot: float
    """From the answer to the launch to the last node's last boot step."""
    to_first_line: float
    """From the end of the boot."""

    @property
    def whole(self) -> float:
        return self.to_launch + self.boot + self.to_first_line


def figures(runs: int) -> list[Figure]:
    row = f"{{name: {PARTITION}, instance_types: [m6i.large], max_nodes: {NODES}}}"
    with cluster() as made:
        made.write(f"partitions: [{row}]\n{REST}")
        made.up()
        made.ssh(f"sudo mkdir -p {PYTHON}/bin && sudo ln -s /usr/bin/python3 {PYTHON}/bin/python")
        turns = [_turn(made) for _ in range(runs)]
    whole, boot = (statistics.median(each) for each in ([turn.whole for turn in turns], [turn.boot for turn in turns]))
    name = f"submit to the first line of {NODES} cold nodes"
    return [Figure(name, "s", whole, boot, "their boot", GOAL, "30 % more")]


def _turn(made: Cluster) -> Seconds:
    began = time.time()
    shape = ("--partition", PARTITION, "--nodes", str(NODES), "--launcher", "srun", "--python", PYTHON)
    log = made.run("submit", *shape, "--follow", "--", "date", "+%s.%N")
    nodes = [f"{PARTITION}-{number}" for number in range(1, NODES + 1)]
    launch = min(each["time"] for each in made.calls(began) if each["action"] == "RunInstances")
    booted = max(_booted(made, node) for node in nodes)
    first = min(map(float, _PRINTED.findall(log)))
    made.power_down(nodes)
    found = Seconds(launch - began, booted - launch, first - booted)
    print(
        f"{found.to_launch:.1f} s to the launch, {found.boot:.1f} s for the boot, "
        f"{found.to_first_line:.1f} s from its end to the first line",
        file=sys.stderr,
    )
    return found


def _booted(made: Cluster, node: str) -> float:
    """When the node's boot wrote the last line of its log."""
    return float(made.ssh(f"ssh {node} stat --format=%.Y /var/log/gpucluster/boot.log"))
