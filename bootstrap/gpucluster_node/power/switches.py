"""Slurm's tree of switches, /etc/slurm/topology.conf: Slurm gives a job idle nodes of as few switches as possible.

It is for partitions whose nodes stay on. The bundle's file has all nodes on one switch. This program replaces it by the
places that EC2 tells, and reconfigures slurmctld, which starts a second process with the new files and goes on in the
first one if that fails (controller.c: _try_to_reconfig). A reconfiguration ends running PrologSlurmctlds, and slurmctld
before 23.11.8 may crash then (Slurm's commit a914847a5b), so it happens only while no job or node starts, and rarely.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gpucluster_node import ec2, files, fleet, names, slurm
from gpucluster_node.power import topology

log = logging.getLogger("switches")
FILE = Path("/etc/slurm/topology.conf")
EVERY_S = 600.0
MOST = 200
"""Slurm computes the distances of all switches in the cube of their number (switch_record.c), on each node."""
STAYING = 2
"""The least `min_nodes` of a partition: jobs of others mostly run on nodes that are launched for them."""
ROOT, UNKNOWN = "cluster", "unknown"
Places = Mapping[str, topology.Path]


def wanted(partition: fleet.Partition) -> bool:
    return partition.topology and partition.min_nodes >= STAYING


def tree(cluster: fleet.Fleet, places: Places) -> str:
    """The lines of the file. Slurm uses no node that is on no switch, and no job may span two trees (topology.conf(5)),
    so nodes without a place are on a switch of their own, and there is one root."""
    parents, leaves = _consistent(places)
    while len(parents) > MOST:
        places = {node: path[:-1] for node, path in places.items()}
        parents, leaves = _consistent(places)
    known = {node for nodes in leaves.values() for node in nodes}
    everyone = [f"{each.name}-{number}" for each in cluster.partitions for number in range(1, each.max_nodes + 1)]
    if rest := [node for node in everyone if node not in known]:
        parents[UNKNOWN], leaves[UNKNOWN] = ROOT, rest
    below: dict[str, list[str]] = {}
    for switch, parent in parents.items():
        below.setdefault(parent, []).append(switch)
    ends = [f"SwitchName={switch} Nodes={ranges(nodes)}\n" for switch, nodes in sorted(leaves.items())]
    return "".join(
        [*ends, *(f"SwitchName={name} Switches={','.join(sorted(below[name]))}\n" for name in sorted(below))]
    )


def _consistent(places: Places) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Each switch's parent, and the nodes of the lowest ones. Slurm ends at a file that is no tree: a node whose place
    contradicts an earlier one is left out."""
    parents: dict[str, str] = {}
    leaves: dict[str, list[str]] = {}
    for node, path in sorted(places.items(), key=lambda each: by_number(each[0])):
        links = dict(zip(path, (ROOT, *path), strict=False)) if path else {}
        agrees = all(parents.get(switch, parent) == parent for switch, parent in links.items())
        crosses = any(switch in leaves for switch in path[:-1]) or (path[-1:] and path[-1] in parents.values())
        if len(links) == len(path) and path and agrees and not crosses:
            parents |= links
            leaves.setdefault(path[-1], []).append(node)
    return parents, leaves


def ranges(nodes: Sequence[str]) -> str:
    """In Slurm's form: `train-[1-2,4],ps-1`."""
    numbers: dict[str, list[int]] = {}
    for name, number in sorted(map(by_number, nodes)):
        numbers.setdefault(name, []).append(number)
    return ",".join(f"{name}-[{names.ranges(found)}]" for name, found in numbers.items())


def by_number(node: str) -> tuple[str, int]:
    name, _, number = node.rpartition("-")
    return name, int(number)


class Network:
    """The nodes' places in EC2's network, in Slurm's field Extra and in its tree."""

    def __init__(self, client: Callable[[], Any]) -> None:
        self._topology, self._switches = topology.Topology(client), Switches()

    def look(self, cluster: fleet.Fleet, nodes: Sequence[slurm.Node], newest: Mapping[str, ec2.Instance]) -> None:
        """newest: node -> its newest instance. It never raises an error: everything else is more important."""
        try:
            self._topology.look(cluster, nodes, newest)
            self._switches.look(cluster, nodes)
        except Exception:
            log.exception("cannot update Slurm's network topology")


class Switches:
    """Never raises an error of Slurm or of the file: jobs run without it."""

    def __init__(self, file: Path = FILE, clock: Callable[[], float] = time.monotonic) -> None:
        self._file, self._clock = file, clock
        self._written: dict[str, topology.Path] = {}
        self._not_before = 0.0
        self._unanswered = False

    def look(self, cluster: fleet.Fleet, nodes: Sequence[slurm.Node]) -> None:
        ours = [node for node in nodes if (partition := cluster.partition_of(node.name)) and wanted(partition)]
        if self._clock() < self._not_before or any(node.has("POWERING_UP", "POWER_UP") for node in ours):
            return
        places = {node.name: path for node in ours if (path := topology.noted(node))}
        if not places.items() - self._written.items():
            return  # that a node has no place any more changes nothing for those that run
        try:
            if self._file.exists() and not slurm.starting():
                self._refresh(cluster, places)
        except (OSError, slurm.SlurmError) as error:
            self._not_before = self._clock() + EVERY_S
            log.warning("cannot update Slurm's network topology: %s", error)

    def _refresh(self, cluster: fleet.Fleet, places: dict[str, topology.Path]) -> None:
        before = self._file.read_text()
        after = before.partition("\n")[0] + "\n" + tree(cluster, places)
        if after != before or self._unanswered:
            self._not_before = self._clock() + EVERY_S
            files.put(self._file, after)
            self._reconfigure(before)
            log.info("slurmctld has read the topology of %d nodes", len(places))
        self._written = places

    def _reconfigure(self, before: str) -> None:
        """Takes the file back if slurmctld refuses it. Without an answer slurmctld may have read it, or may read it
        later: the file stays, and slurmctld is asked again."""
        self._unanswered = True
        try:
            slurm.reconfigure()
        except slurm.UnansweredError:
            raise
        except slurm.SlurmError:
            files.put(self._file, before)
            self._unanswered = False
            raise
        self._unanswered = False
