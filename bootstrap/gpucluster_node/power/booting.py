"""Which instances boot, and since when: a file that `gpucluster why` reads, because Slurm does not show it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from gpucluster_node import ec2, files, slurm

PATH = Path("/run/gpucluster/booting.json")


def booting(nodes: Sequence[slurm.Node], own: Mapping[str, ec2.Instance]) -> dict[str, dict[str, str]]:
    """Node -> its instance and when that was launched."""
    return {
        node.name: {"instance": instance.instance_id, "launched": instance.launch_time.isoformat()}
        for node in nodes
        if node.has("POWERING_UP", "POWER_UP") and not node.has("DOWN") and (instance := own.get(node.name))
    }


def write(found: Mapping[str, Mapping[str, str]], path: Path = PATH) -> None:
    text = json.dumps(found)
    if path.exists() and path.read_text() == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    files.put(path, text)
