"""Rules about the head node."""

from __future__ import annotations

import re

from gpucluster.config.document import Finding, Path
from gpucluster.config.models import ClusterConfig
from gpucluster.config.nodes import HeadNode
from gpucluster.config.validators import Findings, Validators
from gpucluster.hardware.instances import INSTANCE_TYPES

validator = Validators("Head node")

MOST_SNAPSHOTS = 1000


@validator(
    "head-on-nitro",
    "https://docs.aws.amazon.com/ebs/latest/userguide/nvme-ebs-volumes.html: volumes are NVMe devices on Nitro",
)
def head_on_nitro(head: HeadNode, path: Path, config: ClusterConfig) -> Findings:
    """The head node is a Nitro type: its boot knows the data volume by its id, which only NVMe devices tell."""
    if INSTANCE_TYPES[head.instance_type].hypervisor == "xen":
        yield Finding(
            (*path, "instance_type"),
            f"{head.instance_type} runs on Xen: the head node needs a Nitro type, whose volumes are NVMe devices",
            _on_nitro(head.instance_type),
        )


def _on_nitro(name: str) -> str:
    """The Nitro type of the same kind (c, m, t …) and size that is nearest in age."""
    kind, _, size = name.partition(".")
    alike = (each.name for each in INSTANCE_TYPES.values() if each.hypervisor == "nitro" and not each.gpus)
    return next(
        (f"{each} has the same size" for each in alike if re.fullmatch(rf"{kind[0]}\d\.{re.escape(size)}", each)),
        "m6i types are newer, and cost less",
    )


@validator(
    "head-snapshot-count",
    "https://docs.aws.amazon.com/dlm/latest/APIReference/API_RetainRule.html: Count, at most 1000",
)
def head_snapshot_count(head: HeadNode, path: Path, config: ClusterConfig) -> Findings:
    """Snapshots are kept for at most 1000 days: one is taken each day, and 1000 of a volume can be kept."""
    if head.snapshot_days > MOST_SNAPSHOTS:
        yield Finding((*path, "snapshot_days"), f"must be at most {MOST_SNAPSHOTS}, got {head.snapshot_days}")


@validator("head-home-outlives-cluster", "AWS::EC2::Volume: DeletionPolicy Delete", level="warning")
def head_home_outlives_cluster(head: HeadNode, path: Path, config: ClusterConfig) -> Findings:
    """/home on the head node's volume is not lost when the cluster is deleted."""
    if head.on_delete == "delete" and config.home.on_volume:
        yield Finding(
            (*path, "on_delete"),
            "/home and the accounting are deleted with the cluster",
            "on_delete: snapshot keeps a copy, retain keeps the volume",
        )
