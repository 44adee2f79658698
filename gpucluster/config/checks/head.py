"""Rules about the head node."""

from __future__ import annotations

from gpucluster.config.document import Finding, Path
from gpucluster.config.models import ClusterConfig, HeadNode
from gpucluster.config.validators import Findings, validator
from gpucluster.instances import INSTANCE_TYPES

HEAD = "Head node"

XEN_FAMILIES = ("m4.", "p3.")
"""Of the families in the instance table; p3dn is on Nitro."""


@validator(
    "head-on-nitro",
    section=HEAD,
    each=HeadNode,
    source="https://docs.aws.amazon.com/ebs/latest/userguide/nvme-ebs-volumes.html: volumes are NVMe devices on Nitro",
)
def head_on_nitro(head: HeadNode, path: Path, config: ClusterConfig) -> Findings:
    """The head node is a Nitro type: its boot finds the data volume as an NVMe device."""
    if head.instance_type.startswith(XEN_FAMILIES):
        yield Finding(
            (*path, "instance_type"),
            f"{head.instance_type} runs on Xen: "
            "the head node needs its volume as an NVMe device, as Nitro types have it",
            "m6i types are their successors, and cost less",
        )


@validator(
    "head-without-gpus",
    section=HEAD,
    each=HeadNode,
    level="warning",
    source="man slurm.conf.5: NodeName: a host without such a line runs no jobs",
)
def head_without_gpus(head: HeadNode, path: Path, config: ClusterConfig) -> Findings:
    """The head node has no GPUs: it is no Slurm node, so no job could use them."""
    if INSTANCE_TYPES[head.instance_type].gpus:
        yield Finding(
            (*path, "instance_type"),
            f"{head.instance_type} has GPUs that no job can use: the head node is not a Slurm node",
            "m6i.2xlarge is enough for most clusters",
        )
