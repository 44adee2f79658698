"""Which nodes are launched with one call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gpucluster_node import fleet, slurm


@dataclass(frozen=True)
class Group:
    """Nodes that are launched with one call. job_id: the job whose nodes are launched together or not at all. None:
    nodes of several jobs of one node, or of no job; as many are launched as EC2 has capacity for."""

    partition: str
    nodes: tuple[str, ...]
    job_id: int | None = None


def groups(cluster: fleet.Fleet, nodes: Sequence[str], jobs: Sequence[dict[str, Any]]) -> list[Group]:
    """One for each job and partition that wants several nodes, and one for all single nodes of a partition."""
    found: list[Group] = []
    left = dict.fromkeys(nodes)
    for job in jobs:
        wanted = [node for node in slurm.expand(job["nodes_resume"]) if node in left]
        of_job = (Group(name, members, job["job_id"]) for name, members in _by_partition(cluster, wanted))
        for group in of_job:
            if len(group.nodes) > 1:
                found.append(group)
                left = {node: None for node in left if node not in group.nodes}
    return found + [Group(name, members) for name, members in _by_partition(cluster, list(left))]


def _by_partition(cluster: fleet.Fleet, nodes: Sequence[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    of = {node: partition.name for node in nodes if (partition := cluster.partition_of(node))}
    for name in dict.fromkeys(of.values()):
        yield name, tuple(node for node in nodes if of.get(node) == name)
