"""Reserves ports of this node until its input closes, and prints them: `ports COUNT`."""

from __future__ import annotations

import os
import sys

from gpucluster_job.network import NetworkError, Port, address_of


def main(words: list[str]) -> int:
    node = os.environ["SLURMD_NODENAME"]
    try:
        address = address_of(node)
        ports = [Port() for _ in range(int(words[1]))]
    except NetworkError as error:
        sys.exit(f"error: {error}")
    print(node, address, *(port.number for port in ports), flush=True)
    while os.read(0, 4096):
        pass
    return 0
