"""Where each TensorFlow process listens. Every process must know all addresses before the first process starts."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import time
from itertools import cycle, islice
from typing import Iterable, Protocol, Sequence

from gpucluster_job.settings import host_names

RESERVED_S = 120.0


class NoPorts(RuntimeError):
    pass


class Holder(Protocol):
    """`Roles` of steps.py: its step holds ports until the job ends."""

    def hold_ports(self, count: int, nodes: int, *options: str) -> subprocess.Popen[bytes]: ...


class Endpoints:
    """The ports that are still free, by node."""

    def __init__(self) -> None:
        self._free: dict[str, list[str]] = {}

    def add(self, line: str) -> None:
        node, address, *ports = line.split()
        self._free[node] = [f"{address}:{port}" for port in ports]

    def take(self, nodes: Iterable[str]) -> list[str]:
        """One address for each node in the list; a node that is listed twice gets two."""
        return [self._free[node].pop(0) for node in nodes]


def describe(roles: Holder) -> str:
    """TensorFlow's description of the job (TF_CONFIG), as JSON. Raises NoPorts."""
    environ = os.environ
    nodes, ranks = environ["GPUCLUSTER_NODES"].split(), int(environ["RANKS_PER_NODE"])
    servers, server_nodes = int(environ["NUM_SERVERS"]), int(environ["NUM_SERVER_NODES"])
    endpoints = Endpoints()
    beside = 0 if server_nodes else servers
    listen(endpoints, roles.hold_ports(ranks + 1 + beside, len(nodes)), nodes)
    on = nodes[:servers]
    if server_nodes:
        on = host_names(environ["SLURM_JOB_NODELIST_HET_GROUP_1"])
        listen(endpoints, roles.hold_ports(servers, len(on), "--het-group=1"), on)
    cluster = {"worker": endpoints.take(node for node in nodes for _ in range(ranks))}
    if servers:
        cluster["ps"] = endpoints.take(islice(cycle(on), servers))
        cluster["chief"] = endpoints.take(nodes[:1])
    return json.dumps(cluster)


def listen(endpoints: Endpoints, step: subprocess.Popen[bytes], nodes: Sequence[str]) -> None:
    """Waits until each node has printed its ports. Raises NoPorts."""
    assert step.stdout
    said, until = b"", time.monotonic() + RESERVED_S
    with selectors.DefaultSelector() as waiting:
        waiting.register(step.stdout, selectors.EVENT_READ)
        while said.count(b"\n") < len(nodes):
            data = b""
            if waiting.select(max(0.0, until - time.monotonic())):
                data = os.read(step.stdout.fileno(), 4096)
            if not data:
                raise NoPorts(f"no ports were reserved on the nodes {' '.join(nodes)}")
            said += data
    for line in said.decode().splitlines():
        endpoints.add(line)
