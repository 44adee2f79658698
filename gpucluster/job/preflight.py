"""The expected state of a job's nodes, which gpucluster_job/preflight compares with the nodes."""

from __future__ import annotations

from collections.abc import Sequence

from gpucluster.config.models import ClusterConfig
from gpucluster.job.spec import JobSpec
from gpucluster.layout import Layout, Partition

PUBLISHED = {
    ("p4d.24xlarge", 2): (76.8, "p4de.24xlarge, which has the same network: awsome-distributed-ai, nccl-tests"),
    ("p4de.24xlarge", 2): (76.8, "awsome-distributed-ai, nccl-tests"),
    ("p5.48xlarge", 1): (442.0, "awsome-distributed-ai, AWS Batch"),
    ("p5.48xlarge", 2): (437.0, "awsome-distributed-ai, nccl-tests"),
}
"""(Type, nodes) -> bus bandwidth in GB/s of an all-reduce of 1 GiB over all of their GPUs.

A figure holds only for its number of nodes: on more nodes, each byte crosses the network more often. Thresholds that
health checks use for any number of nodes are higher than what was published for two."""


ADMINISTRATORS = "tell the cluster's administrators"
"""The hint for a broken node of a cluster that we did not build."""


def programs(spec: JobSpec) -> tuple[str, ...]:
    """Like a launcher's `programs`: Open MPI starts nccl-tests."""
    return ("ssh-through-slurm.sh:bin/ssh",) if spec.preflight == "full" else ()


def expected(spec: JobSpec, layout: Layout, partition: Partition, own: Sequence[str]) -> dict[str, object]:
    """`own`: the mounts of the file systems that are created for this job."""
    return {
        "level": spec.preflight,
        "gpus": spec.gpus_per_node or 0,
        "cpus": cpus(spec, layout, partition),
        "efa": spec.efa,
        "efa_interfaces": efa_interfaces(partition),
        "mounts": mounts(layout.config, own),
        "published": published(spec, partition, spec.nodes),
        "published_for_two": published(spec, partition, 2),
        "compare_nodes": spec.exclusive and len(partition.types) == 1 and not layout.site,
    } | ({"then": ADMINISTRATORS} if layout.site else {})


def cpus(spec: JobSpec, layout: Layout, partition: Partition) -> int:
    """The CPUs of a node that the job has to itself. 0: the job expects those that Slurm gives it, because it shares
    its nodes, or because another cluster may reserve some."""
    return min(each.vcpus for each in partition.types) if spec.exclusive and not layout.site else 0


def mounts(config: ClusterConfig, own: Sequence[str]) -> list[str]:
    """The cluster's storage that every node mounts. Of the file systems created for jobs, only this job's own."""
    others = {each.mount for each in config.lustre_with_jobs} - set(own)
    found = (storage.mount for storage in config.storage if storage.everywhere)
    return [mount for mount in found if mount not in others]


def published(spec: JobSpec, partition: Partition, nodes: int) -> dict[str, object] | None:
    types = partition.types
    figure = PUBLISHED.get((types[0].name, nodes))
    whole = spec.ranks_per_node == spec.gpus_per_node == types[0].gpus
    return {"gb_per_s": figure[0], "source": figure[1]} if figure and whole and len(types) == 1 else None


def efa_interfaces(partition: Partition) -> dict[str, int]:
    """Instance type -> its number of EFA interfaces. Empty if the partition has no EFA."""
    return {each.name: each.efa_interfaces for each in partition.types} if partition.efa else {}
