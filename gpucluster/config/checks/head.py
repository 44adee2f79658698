"""Rules about the head node."""

from __future__ import annotations

from gpucluster.config.document import Finding, Path
from gpucluster.config.models import ClusterConfig, HeadNode
from gpucluster.config.validators import Findings, validator
from gpucluster.hardware.instances import INSTANCE_TYPES

HEAD = "Head node"

XEN_FAMILIES = ("m4.", "p3.")
"""Of the families in the instance table; p3dn is on Nitro."""

MOST_SNAPSHOTS = 1000

DEPLOYMENT_WAITS_S = 1800
"""For a head node to say that its bundle is live; then the deployment fails and is rolled back."""


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
    "head-boots-in-time",
    section=HEAD,
    each=HeadNode,
    level="warning",
    source="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instance-types.html: bare metal may take 20 minutes; "
    "AWS::CloudFormation::WaitCondition Timeout",
)
def head_boots_in_time(head: HeadNode, path: Path, config: ClusterConfig) -> Findings:
    """The head node is not bare metal: its boot and set-up may take longer than the deployment waits."""
    if INSTANCE_TYPES[head.instance_type].bare_metal:
        yield Finding(
            (*path, "instance_type"),
            f"{head.instance_type} is bare metal: it may take 20 minutes to boot, "
            f"and the deployment waits {DEPLOYMENT_WAITS_S // 60} for Slurm",
            "the largest size of the family that is no metal has as many cores",
        )


@validator(
    "head-snapshot-count",
    section=HEAD,
    each=HeadNode,
    source="https://docs.aws.amazon.com/dlm/latest/APIReference/API_RetainRule.html: Count, at most 1000",
)
def head_snapshot_count(head: HeadNode, path: Path, config: ClusterConfig) -> Findings:
    """Snapshots are kept for at most 1000 days: one is made each day, and that many of a volume can be kept."""
    if head.snapshot_days > MOST_SNAPSHOTS:
        yield Finding((*path, "snapshot_days"), f"must be at most {MOST_SNAPSHOTS}, got {head.snapshot_days}")


@validator(
    "head-home-outlives-cluster",
    section=HEAD,
    each=HeadNode,
    level="warning",
    source="AWS::EC2::Volume: DeletionPolicy Delete",
)
def head_home_outlives_cluster(head: HeadNode, path: Path, config: ClusterConfig) -> Findings:
    """/home on the head node's volume is not lost when the cluster is deleted."""
    if head.on_delete == "delete" and config.home.on_volume:
        yield Finding(
            (*path, "on_delete"),
            "/home is deleted with the cluster, and so is the accounting",
            "snapshot keeps a copy, retain the volume itself",
        )


@validator(
    "head-snapshots-are-deleted",
    section=HEAD,
    each=HeadNode,
    level="warning",
    source="https://docs.aws.amazon.com/ebs/latest/userguide/snapshot-lifecycle.html: "
    "a deleted policy deletes no snapshot any more",
)
def head_snapshots_are_deleted(head: HeadNode, path: Path, config: ClusterConfig) -> Findings:
    """With on_delete: delete there are no daily snapshots: those would stay, and cost, after the cluster."""
    if head.on_delete == "delete" and head.snapshot_days:
        yield Finding(
            (*path, "snapshot_days"),
            f"up to {head.snapshot_days} snapshots of the volume stay when the cluster is deleted",
            "write snapshot_days: 0, or on_delete: snapshot",
        )
