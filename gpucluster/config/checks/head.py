"""Rules about the head node."""

from __future__ import annotations

from gpucluster.config.document import Finding, Path
from gpucluster.config.models import ClusterConfig
from gpucluster.config.nodes import HeadNode
from gpucluster.config.validators import Findings, Validators

validator = Validators("Head node")

XEN_FAMILIES = ("m4.", "p3.")
"""The Xen families in the instance table; p3dn is on Nitro."""

MOST_SNAPSHOTS = 1000


@validator(
    "head-on-nitro",
    "https://docs.aws.amazon.com/ebs/latest/userguide/nvme-ebs-volumes.html: volumes are NVMe devices on Nitro",
)
def head_on_nitro(head: HeadNode, path: Path, config: ClusterConfig) -> Findings:
    """The head node is a Nitro type: its boot expects the data volume as an NVMe device."""
    if head.instance_type.startswith(XEN_FAMILIES):
        yield Finding(
            (*path, "instance_type"),
            f"{head.instance_type} runs on Xen: the head node needs a Nitro type, whose volumes are NVMe devices",
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
