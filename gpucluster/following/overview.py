"""The whole cluster at one moment: nodes with their load, jobs, and what an hour costs. `gpucluster top` and the page
show it again and again, so the head node is asked as seldom as possible: once for Slurm and once for the samples."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpucluster.config import ClusterConfig
from gpucluster.following import cost, usage
from gpucluster.following.usage import GpuNow
from gpucluster.head import arrays, hostlist, queue, slurm
from gpucluster.head.remote import Remote

# Nodes first: no user writes what is in these lines. The records of squeue are last, with their mark.
_READ = r"""
set -e -o pipefail
date +%s
eval "$1"
echo gpucluster:types
scontrol show nodes --oneliner | sed -n 's/^NodeName=\([^ ]*\) .* InstanceType=\([^ ]*\).*/\1 \2/p'
echo gpucluster:jobs
eval "$2"
"""

_OFF = "~"
"""sinfo's mark of a node that is powered off."""


@dataclass(frozen=True)
class NodeRow:
    name: str
    partition: str
    """Several with commas between them, if partitions share it."""
    state: str
    """In words: idle, allocated (booting), down (does not respond) …"""
    instance_type: str
    """Empty if Slurm does not say it: the node is powered off or boots, or we have not built the cluster."""
    job_ids: tuple[str, ...]
    usage: usage.NodeNow | None
    """None: there are no samples of it."""
    reason: str
    """Why it is out of service, as set in Slurm."""
    running: bool = True
    """False: powered off until a job needs it."""
    available: bool = True

    def in_use(self, gpu: GpuNow) -> bool:
        """Whether a job has this GPU. Jobs that share the node may leave some."""
        return bool(self.job_ids) and gpu.has_job is not False


@dataclass(frozen=True)
class JobRow:
    job_id: str
    """An array is one row."""
    name: str
    """As its user wrote it: any characters."""
    user: str
    state: str
    nodes: int
    node_list: str
    elapsed_s: float
    reason: str
    """Why it is pending, in words; of an array, how many elements are in which state."""
    usd_per_hour: float | None
    """Its share of its nodes' prices. None if it has no nodes, or a price is not known."""


@dataclass(frozen=True)
class Overview:
    at_s: float
    """By the head node's clock."""
    nodes: tuple[NodeRow, ...]
    jobs: tuple[JobRow, ...]
    """Those that have not ended: first those with nodes, then in squeue's order."""
    usd_per_hour: float | None
    """The on-demand price of the compute nodes that run now. None if a price is not known."""
    lacks: tuple[str, ...]
    """What could not be found out, a sentence each."""


def of(remote: Remote, config: ClusterConfig) -> Overview:
    """Raises CloudError if Slurm does not answer. Without samples the nodes have no `usage`, and `lacks` says why."""
    asked = [shlex.join(slurm.sinfo_argv()), shlex.join(slurm.newest_argv(0, fields=slurm.OWNED_FIELDS))]
    done = remote.run(["bash", "-c", _READ, "bash", *asked]).check("cannot list nodes and jobs")
    try:
        return parse(done.stdout, config, usage.now(remote))
    except usage.Unavailable as error:
        return parse(done.stdout, config, (), (error.message,))


def parse(text: str, config: ClusterConfig, samples: Sequence[usage.NodeNow], lacks: tuple[str, ...] = ()) -> Overview:
    """`text`: what `_READ` prints."""
    listed, _, queued = text.partition("\ngpucluster:jobs\n")
    nodes, _, types = listed.partition("\ngpucluster:types")
    at, _, nodes = nodes.partition("\n")
    found, users = queue.owned(queued)
    on_nodes = {job.job_id: hostlist.names(job.node_list) for job in found if job.node_list}
    kinds = dict(line.split(" ", 1) for line in types.split("\n") if " " in line)
    rows = _nodes(slurm.parse_nodes(nodes), kinds, _by_node(on_nodes), samples)
    per_node = {row.name: _usd(row, config) for row in rows if row.running}
    shares = {row.name: _shared(per_node.get(row.name), len(row.job_ids)) for row in rows}
    jobs = [_job(job, users, [shares.get(node) for node in on_nodes.get(job.job_id, ())]) for job in found]
    return Overview(
        at_s=float(at) if at.isdecimal() else time.time(),
        nodes=tuple(rows),
        jobs=tuple(sorted(jobs, key=lambda job: not job.node_list)),
        usd_per_hour=_total(list(per_node.values())),
        lacks=lacks,
    )


def _nodes(
    listed: Sequence[slurm.Node],
    kinds: Mapping[str, str],
    on_node: Mapping[str, tuple[str, ...]],
    samples: Sequence[usage.NodeNow],
) -> list[NodeRow]:
    """sinfo lists a node once for each of its partitions."""
    partitions: dict[str, list[str]] = {}
    for node in listed:
        partitions.setdefault(node.name, []).append(node.partition)
    sampled = {each.node: each for each in samples}
    once = {node.name: node for node in listed}
    return [
        NodeRow(
            name=name,
            partition=",".join(partitions[name]),
            state=node.words,
            instance_type="" if node.mark == _OFF else kinds.get(name, ""),
            job_ids=on_node.get(name, ()),
            usage=None if node.mark == _OFF else sampled.get(name),
            reason=node.reason,
            running=node.mark != _OFF,
            available=node.available,
        )
        for name, node in once.items()
    ]


def _job(job: slurm.Job, users: Mapping[str, str], usd: Sequence[float | None]) -> JobRow:
    waits = slurm.base_state(job.state) == "PENDING"
    said = arrays.words(arrays.counts(job.elements)) or (slurm.pending_reason(job.reason) if waits else "")
    return JobRow(
        job_id=job.job_id,
        name=job.name,
        user=users.get(job.job_id, ""),
        state=slurm.base_state(job.state),
        nodes=len(usd) or job.nodes,
        node_list=job.node_list,
        elapsed_s=_seconds(job.elapsed),
        reason=said,
        usd_per_hour=_total(usd) if usd else None,
    )


def _by_node(on_nodes: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for job_id, nodes in on_nodes.items():
        for node in nodes:
            found.setdefault(node, []).append(job_id)
    return {node: tuple(job_ids) for node, job_ids in found.items()}


def _usd(row: NodeRow, config: ClusterConfig) -> float | None:
    """An hour of this node, as `cost` counts it. Of a node that boots, the price of the first type of its partition,
    which is launched while EC2 has it."""
    partition = next((each for each in config.every_partition if each.name == row.partition), None)
    if partition is None:
        return None
    return cost.price(config.region)(row.instance_type or partition.instance_types[0], partition.purchase)


def _shared(usd: float | None, count: int) -> float | None:
    return None if usd is None else usd / max(1, count)


def _total(each: Sequence[float | None]) -> float | None:
    """None if one price is unknown: a sum without it would look complete."""
    known = [usd for usd in each if usd is not None]
    return sum(known) if len(known) == len(each) else None


def _seconds(elapsed: str) -> float:
    """squeue's %M: `2-03:04:05`, `1:02:03`, `0:04`, or INVALID while the clocks disagree (print.c)."""
    found = re.fullmatch(r"(?:(?:(\d+)-)?(\d+):)?(\d+):(\d+)", elapsed)
    days, hours, minutes, seconds = (int(each or 0) for each in found.groups()) if found else (0, 0, 0, 0)
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)
