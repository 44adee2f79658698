"""Makes the layout of a context's cluster. `submit` checks jobs against it, as against that of a cluster file."""

from __future__ import annotations

from gpucluster.config.models import ClusterConfig, Software
from gpucluster.config.nodes import RootVolume
from gpucluster.contexts.probe import Partition as Found
from gpucluster.contexts.store import Context
from gpucluster.hardware.instances import InstanceType
from gpucluster.layout import Layout, Partition

OWN_IMAGE = "ami-of-others"
"""The checks treat this as the user's own AMI, which may contain folders that the cluster file does not name."""


def of(context: Context) -> Layout:
    software = Software.model_construct(frameworks=(), image=OWN_IMAGE, containers=context.facts.pyxis)
    config = ClusterConfig.model_construct(
        name=context.name, region="", partitions=(), storage=(), software=software, s3_access=()
    )
    return Layout(config, tuple(map(_partition, context.facts.partitions)), (), context.site)


def _partition(found: Found) -> Partition:
    return Partition(
        name=found.name,
        types=(_nodes(found),),
        image="",
        min_nodes=0,
        max_nodes=found.nodes,
        purchase="on-demand",
        reservation_id=None,
        group=None,
        root=RootVolume(),
        efa=False,
        scratch=False,
        idle_s=0,
        ram=None,
    )


def _nodes(found: Found) -> InstanceType:
    """For a partition with several kinds of nodes: the largest value of any kind, so that Slurm decides whether a job
    fits."""
    gpus, model = found.largest.gpus, found.largest.gpu_model
    return InstanceType(
        name=f"{gpus} GPUs" + f" {model}" * bool(model) if gpus else "no GPUs",
        vcpus=max(kind.cpus for kind in found.kinds),
        memory_gib=-(-max(kind.memory_mib for kind in found.kinds) // 1024),
        gpus=gpus,
        gpu_model=model or None,
        gpu_memory_mib=0,
        efa_interfaces=0,
        cards=(),
        nvme_gb=0,
    )
