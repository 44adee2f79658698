"""A node's boot from a plain image against that from a baked one, in a local cloud of its own.

Wall-clock time, as a user waits for it: a boot is mostly waiting. Nodes boot one after another, each of a partition of
its own, first those of the plain image; then the image is baked, and the others boot from that. Needs root.
"""

from __future__ import annotations

import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from bench.figures import Figure

PORT = 5830
NAME = "BenchBoots"
_STEP = re.compile(r"step=\w+ status=ok seconds=([0-9.]+)")
_TIME = re.compile(r"^(\S+Z) step=\w+ status=ok", re.MULTILINE)


def figures(runs: int) -> list[Figure]:
    from localcloud.machines import image

    plain = image.build(plain=True, log=lambda line: print(line, file=sys.stderr))
    with tempfile.TemporaryDirectory() as folder:
        cluster = Cluster(Path(folder) / "cluster.yaml", plain)
        try:
            return _measured(cluster, runs)
        finally:
            cluster.run("down", "--yes")


def _measured(cluster: Cluster, runs: int) -> list[Figure]:
    numbers = range(1, runs + 1)
    cluster.write([f"{kind}-{number}" for kind in ("plain", "baked") for number in numbers])
    cluster.run("up", "--local", "--port", str(PORT), "--image", str(cluster.image))
    plain = [cluster.boot(f"plain-{number}") for number in numbers]
    cluster.run("image", "build", "--local")
    cluster.run("up", "--local")
    baked = [cluster.boot(f"baked-{number}") for number in numbers]
    return [
        _figure("steps of a baked node's boot", [each[0] for each in baked], [each[0] for each in plain]),
        _figure("a baked node, launch to last step", [each[1] for each in baked], [each[1] for each in plain]),
    ]


def _figure(name: str, baked: Sequence[float], plain: Sequence[float]) -> Figure:
    value, floor = statistics.median(baked), statistics.median(plain)
    return Figure(name=name, unit="s", value=value, floor=floor, floor_name="a plain node's")


class Cluster:
    def __init__(self, file: Path, image: Path) -> None:
        self.image = image
        self._file = file

    def write(self, partitions: Sequence[str]) -> None:
        rows = "".join(f"  - {{name: {name}, instance_types: [m6i.large], max_nodes: 1}}\n" for name in partitions)
        # Without what a node does not wait for.
        rest = "software: {frameworks: [torch]}\naccounting: off\nmonitoring: {dashboard: false}\n"
        self._file.write_text(f"name: {NAME}\nregion: us-east-1\npartitions:\n{rows}{rest}")

    def run(self, *words: str) -> str:
        argv = [sys.executable, "-m", "gpucluster.cli", "-c", str(self._file), *words]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"gpucluster {' '.join(words)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def boot(self, partition: str) -> tuple[float, float]:
        """Of the partition's node, which boots for a job: seconds in steps, and from its launch to the last of them."""
        self.run("ssh", "--", f"srun --partition={partition} hostname")  # a job would have its environment built first
        node = f"{partition}-1"
        log = self.run("ssh", "--", f"ssh {node} sudo cat /var/log/gpucluster/boot.log")
        ended = datetime.fromisoformat(_TIME.findall(log)[-1])
        return sum(map(float, _STEP.findall(log))), (ended - self._launched(node)).total_seconds()

    def _launched(self, node: str) -> datetime:
        import boto3

        keys = {"aws_access_key_id": "localcloud", "aws_secret_access_key": "localcloud"}
        ec2 = boto3.client("ec2", region_name="us-east-1", endpoint_url=f"http://127.0.0.1:{PORT}", **keys)
        found = ec2.describe_instances(Filters=[{"Name": "tag:gpucluster:node", "Values": [node]}])["Reservations"]
        launched: datetime = found[0]["Instances"][0]["LaunchTime"]
        return launched
