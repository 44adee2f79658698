"""A cluster in a local cloud of its own, for figures of how long things take to be there. Needs root.

Wall-clock time, as a user waits for it: most of it is waiting.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PORT = 5830
GONE_WITHIN_S = 900


class Cluster:
    def __init__(self, file: Path) -> None:
        self._file = file

    def write(self, text: str) -> None:
        """The cluster file without name and region."""
        self._file.write_text(f"name: Bench\nregion: us-east-1\n{text}")

    def run(self, *words: str) -> str:
        """A verb's output. Raises RuntimeError if it fails."""
        argv = [Path(sys.executable).with_name("gpucluster"), "-c", self._file, *words]
        # Here, because `submit` uploads the folder in which it runs.
        done = subprocess.run(argv, cwd=self._file.parent, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"gpucluster {' '.join(words)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def up(self, *options: str) -> None:
        self.run("up", "--local", "--port", str(PORT), *options)

    def ssh(self, script: str) -> str:
        return self.run("ssh", "--", script)

    def power_down(self, nodes: Sequence[str]) -> None:
        """Waits until no compute node's instance is left, and Slurm may start each node again. Raises RuntimeError."""
        self.ssh(f"sudo scontrol update nodename={','.join(nodes)} state=power_down")
        until = time.monotonic() + GONE_WITHIN_S
        while left := self._instances() or self._busy():
            if time.monotonic() > until:
                raise RuntimeError(f"not gone after {GONE_WITHIN_S} s: {' '.join(left)}")
            time.sleep(2)

    def _instances(self) -> list[str]:
        role = {"Name": "tag:gpucluster:role", "Values": ["compute"]}
        live = {"Name": "instance-state-name", "Values": ["pending", "running", "stopping", "stopped", "shutting-down"]}
        found = self.client("ec2").describe_instances(Filters=[role, live])["Reservations"]
        return [each["InstanceId"] for group in found for each in group["Instances"]]

    def _busy(self) -> list[str]:
        """Nodes that do not wait, powered down, for a job."""
        shown = self.ssh("sinfo --noheader --Node --format='%N %t'").splitlines()
        return [line for line in shown if line.split()[1] != "idle~"]

    def calls(self, since: float) -> list[dict[str, Any]]:
        """AWS's calls that the local cloud has answered since then: `time`, `service`, `action`."""
        with urllib.request.urlopen(
            f"{self.client('ec2').meta.endpoint_url}/_localcloud/calls?since={since}"
        ) as answer:
            found: list[dict[str, Any]] = json.load(answer)
        return found

    def client(self, service: str) -> Any:
        from gpucluster.cluster import aws
        from gpucluster.config import load

        return aws.connect(load(self._file)).client(service)


@contextmanager
def cluster() -> Iterator[Cluster]:
    """A folder for a cluster. Nothing runs before or afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        made = Cluster(Path(folder) / "cluster.yaml")
        try:
            yield made
        finally:
            made.run("down", "--yes")
