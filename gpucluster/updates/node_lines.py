"""The partitions' node lines in slurm.conf: those of the deployment, and those that this version of GpuCluster writes.

Another version may write another line for the same cluster file. slurmctld ends the running jobs of a node whose number
of cores has changed (Slurm 23.11 and 24.11, read_config.c: "Aborting … due to change in socket/core configuration of
allocated nodes"), so the partition's nodes must be terminated first. A node that runs also keeps the ports with which
it started, and the controller's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from gpucluster import render
from gpucluster.config.outcome import Difference, Drain, Outcome, drain
from gpucluster.layout import Layout

_NEWER = re.compile(r" Sockets=\d+ CoresPerSocket=\d+ ThreadsPerCore=\d+| Port=\d+")
_LINE = re.compile(r"NodeName=(\S+)-(?:\d+|\[[\d-]+\]) (.+) State=CLOUD(?: .+)?")

NodeLines = Mapping[str, str]
"""Partition -> its line without the nodes' names, their state and what follows it: none of that ends a job."""


def node_lines(layout: Layout) -> dict[str, str]:
    lines = render.slurm(layout)["slurm/slurm.conf"].splitlines()
    return {found[1]: found[2] for found in map(_LINE.fullmatch, lines) if found}


def without_topology(layout: Layout) -> dict[str, str]:
    """The lines of the versions whose records have none."""
    return {name: _NEWER.sub("", line) for name, line in node_lines(layout).items()}


def rewritten(deployed: NodeLines, old: Layout, new: Layout) -> Iterator[tuple[Difference, Outcome]]:
    """An indirect change: this version writes another line for the deployed file. `old`: the layout of that file."""
    for name, line in node_lines(old).items():
        before = deployed.get(name, line)
        if before != line and name in new.names:
            key = "parameter_servers" if old.servers and old.servers.name == name else f"partitions[{name}]"
            difference = Difference(key, f"{key} in slurm.conf", (name,), before, line)
            yield (
                difference,
                drain("this version of GpuCluster describes its nodes in another way", Drain(name)),
            )
