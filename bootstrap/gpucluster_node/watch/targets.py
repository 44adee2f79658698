"""Tells Prometheus, on the head node, which nodes run: it follows this file by itself (file_sd_config).

From Slurm and not from EC2, which would need AWS's credentials in Prometheus, and knows no names of nodes.
"""

from __future__ import annotations

import ipaddress
import json
import logging
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from gpucluster_node import files, slurm
from gpucluster_node.log import start_logging

log = logging.getLogger("targets")
INTERVAL_S = 10.0
TARGETS = Path("/var/lib/gpucluster/prometheus-targets.json")
_OFF = ("POWERED_DOWN", "POWERING_DOWN", "POWER_DOWN", "POWERING_UP")


def targets(nodes: Iterable[slurm.Node], port: int) -> list[dict[str, Any]]:
    """The format of file_sd_config. A node keeps its name in `instance` when another instance takes its place."""
    found = [("head", "127.0.0.1")]
    found += [(node.name, node.address) for node in nodes if _is_address(node.address) and not node.has(*_OFF)]
    return [{"targets": [f"{address}:{port}"], "labels": {"instance": name}} for name, address in found]


def _is_address(text: str) -> bool:
    """Slurm has the name instead, or slurm.NOWHERE, of a node that is powered off."""
    try:
        return text != slurm.NOWHERE and bool(ipaddress.IPv4Address(text))
    except ValueError:
        return False


def main() -> None:
    start_logging()
    port, before = int(sys.argv[1]), ""
    while True:
        try:
            text = json.dumps(targets(slurm.nodes(), port), indent=1)
            if text != before:
                files.put(TARGETS, text)
                before = text
        except (slurm.SlurmError, OSError) as error:
            log.warning("the list of nodes for Prometheus stays as it is: %s", error)
        time.sleep(INTERVAL_S)


if __name__ == "__main__":
    main()
