"""The order of the job's nodes for its ranks: nodes of one switch follow each other."""

from __future__ import annotations

import os
import re
import subprocess

ORDERED = ("torchrun", "smddp", "horovodrun", "mpirun")
"""Launchers that take the nodes in an order of ours. Slurm numbers the ranks of the others by the nodes' names."""
TIMEOUT_S = 30
"""The job starts without the order if slurmctld does not answer."""
_PLACE = re.compile(r"^NodeName=(\S+) .* Extra=(nn-\w+(?:/nn-\w+)*)(?: |$)", re.MULTILINE)


def ordered(nodes: list[str], node_list: str) -> list[str]:
    """Two nodes have only one order, because the first one stays the first: the launcher runs there."""
    if len(nodes) < 3:
        return nodes
    places = read(node_list)
    if not any(node in places for node in nodes):
        return nodes
    return by_switch(nodes, places)


def read(node_list: str) -> dict[str, tuple[str, ...]]:
    """Node -> its network nodes in EC2, from the top layer to the lowest. The head node writes them to Slurm."""
    asked = ["scontrol", "show", "nodes", node_list, "--oneliner"]
    try:
        done = subprocess.run(
            asked, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False, timeout=TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return {}
    return {name: tuple(place.split("/")) for name, place in _PLACE.findall(done.stdout)}


def by_switch(nodes: list[str], places: dict[str, tuple[str, ...]]) -> list[str]:
    """The first node, then the nearest to it, layer by layer; nodes without a known place come last."""
    first = places.get(nodes[0], ())

    def key(node: str) -> tuple[bool, bool, int, tuple[str, ...], int]:
        place = places.get(node, ())
        return node != nodes[0], not place, -len(os.path.commonprefix([first, place])), place, nodes.index(node)

    return sorted(nodes, key=key)
