"""Synthesis of two partitions with FSx beside them, and of fifty of p4d, against an empty CDK app and ParallelCluster.

ParallelCluster's figures are those of version 3.16.1 on Python 3.11.7 and Node.js 20: whole process, user + system, on
a machine where `import boto3` took BOTO3_MS. They count in multiples of that floor, which is measured here in the same
run. Its templates were made from instance data with one network card for each type: real ones are larger.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from bench.figures import Figure
from bench.measure import Measurement, cpu_ms, medians
from bench.synthesis import synthesis

BOTO3_MS = 120.0
PARALLELCLUSTER_TWO_QUEUES_MS = 4670.0
PARALLELCLUSTER_FIFTY_QUEUES_MS = 7100.0
"""At least: the two queues' process and the difference between the two syntheses inside it."""
PARALLELCLUSTER_FIFTY_QUEUES_KB = 968.1
"""Root and nested template together, without blanks."""

TWO = """
name: Two
region: us-east-1
partitions:
  - {name: a100, instance_types: [p4d.24xlarge], max_nodes: 8}
  - {name: a100-large, instance_types: [p4de.24xlarge], max_nodes: 8}
storage:
  - {mount: /fsx, type: fsx-lustre, capacity_gib: 2400}
"""
FIFTY = "name: Fifty\nregion: us-east-1\npartitions:\n" + "".join(
    f"  - {{name: p4d-{number}x, instance_types: [p4d.24xlarge], max_nodes: 500}}\n" for number in range(1, 51)
)
APPS = {"Two": TWO, "Fifty": FIFTY}
PEERS_MS = {"Two": PARALLELCLUSTER_TWO_QUEUES_MS, "Fifty": PARALLELCLUSTER_FIFTY_QUEUES_MS}


def figures(runs: int) -> list[Figure]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        apps = {name: _cluster(folder, name, text) for name, text in APPS.items()}
        floors = {"empty": synthesis(["-m", "bench.empty_app"], folder / "empty"), "boto3": _import_boto3}
        times = medians(apps | floors, runs)
        size_kb = (folder / "Fifty" / "Fifty.template.json").stat().st_size / 1000
    template = Figure(
        name="template of 50 p4d partitions",
        unit="KB",
        value=size_kb,
        floor=PARALLELCLUSTER_FIFTY_QUEUES_KB,
        floor_name="ParallelCluster's",
        goal=300 / PARALLELCLUSTER_FIFTY_QUEUES_KB,
        goal_text="300 KB",
    )
    return [*(each for name in APPS for each in _against(name, times)), template]


def _against(name: str, times: dict[str, float]) -> list[Figure]:
    what = {"name": f"synth of {name.lower()} partitions", "unit": "ms", "value": times[name]}
    peer = PEERS_MS[name] / BOTO3_MS
    return [
        Figure(**what, floor=times["empty"], floor_name="an empty CDK app"),  # type: ignore[arg-type]
        Figure(**what, floor=times["boto3"], floor_name="import boto3", peer=peer, peer_name="ParallelCluster"),  # type: ignore[arg-type]
    ]


def _cluster(folder: Path, name: str, text: str) -> Measurement:
    file = folder / f"{name}.yaml"
    file.write_text(text)
    return synthesis(["app.py"], folder / name, str(file))


def _import_boto3() -> float:
    return cpu_ms([sys.executable, "-c", "import boto3"])
