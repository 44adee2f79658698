"""A node's boot from a plain image against that from a baked one.

Nodes boot one after another, each of its own partition: first those of the plain image; then the image is baked,
and the others boot from that.
"""

from __future__ import annotations

import re
import statistics
import sys
from collections.abc import Sequence
from datetime import datetime

from bench.figures import Figure
from bench.local_cluster import Cluster, cluster

_STEP = re.compile(r"step=\w+ status=ok seconds=([0-9.]+)")
_TIME = re.compile(r"^(\S+Z) step=\w+ status=ok", re.MULTILINE)
REST = "software: {frameworks: [torch]}\naccounting: off\nmonitoring: {dashboard: false}\n"
"""Without what a node does not wait for."""


def figures(runs: int) -> list[Figure]:
    from localcloud.machines import image

    plain = image.build(plain=True, log=lambda line: print(line, file=sys.stderr))
    numbers = range(1, runs + 1)
    names = [f"{kind}{number}" for kind in ("plain", "baked") for number in numbers]
    rows = "".join(f"  - {{name: {name}, instance_types: [m6i.large], max_nodes: 1}}\n" for name in names)
    with cluster() as made:
        made.write(f"partitions:\n{rows}{REST}")
        made.up("--image", str(plain))
        before = [_boot(made, f"plain{number}") for number in numbers]
        made.run("image", "build", "--local")
        made.up()
        after = [_boot(made, f"baked{number}") for number in numbers]
    return [
        _figure("steps of a baked node's boot", [each[0] for each in after], [each[0] for each in before]),
        _figure("a baked node, launch to last step", [each[1] for each in after], [each[1] for each in before]),
    ]


def _figure(name: str, baked: Sequence[float], plain: Sequence[float]) -> Figure:
    value, floor = statistics.median(baked), statistics.median(plain)
    return Figure(name=name, unit="s", value=value, floor=floor, floor_name="a plain node's")


def _boot(made: Cluster, partition: str) -> tuple[float, float]:
    """Of the partition's node, which boots for a job: seconds in steps, and from its launch to the last of them."""
    made.ssh(f"srun --partition={partition} hostname")  # a job would have its environment built first
    node = f"{partition}-1"
    log = _boot_log(made, node)
    return sum(map(float, _STEP.findall(log))), (_last(log) - launched(made, node)).total_seconds()


def launched(made: Cluster, node: str) -> datetime:
    """When EC2 launched the node's instance."""
    from gpucluster.cluster import tagged_instances

    found = tagged_instances.find(made.client("ec2"), role="compute")
    time: datetime = next(each["LaunchTime"] for each in found if tagged_instances.node_of(each) == node)
    return time


def _boot_log(made: Cluster, node: str) -> str:
    return made.ssh(f"ssh {node} sudo cat /var/log/gpucluster/boot.log")


def _last(log: str) -> datetime:
    return datetime.fromisoformat(_TIME.findall(log)[-1])
