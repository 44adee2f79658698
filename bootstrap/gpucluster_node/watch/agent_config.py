"""Prints the CloudWatch agent's configuration for this machine.

usage: agent_config ROLE [--without SECTION]. Removes sections of the bundle's file that this machine cannot measure:
the agent does not start if it finds no nvidia-smi.
"""

from __future__ import annotations

import json
import shutil
import socket
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

from gpucluster_node.fleet import BUNDLE

NODE = "{node}"


def tailor(text: str, *, node: str, without: Collection[str]) -> dict[str, Any]:
    """without: sections of `metrics_collected` to remove."""
    config: dict[str, Any] = json.loads(text.replace(NODE, node))
    collected = config["metrics"]["metrics_collected"]
    config["metrics"]["metrics_collected"] = {key: each for key, each in collected.items() if key not in without}
    return config


def lacking(root: Path = Path("/")) -> set[str]:
    """The sections for hardware that this machine does not have."""
    missing = set()
    if not shutil.which("nvidia-smi") or not (root / "dev/nvidia0").exists():
        missing.add("nvidia_gpu")
    drivers = (root / "sys/class/infiniband").glob("*/device/driver")
    if not any(driver.resolve().name == "efa" for driver in drivers):
        missing.add("efa")
    return missing


def main() -> None:
    role, *options = sys.argv[1:]
    text = (BUNDLE / f"cloudwatch/{role}.json").read_text()
    print(json.dumps(tailor(text, node=socket.gethostname(), without=lacking() | set(options[1:])), indent=2))


if __name__ == "__main__":
    main()
