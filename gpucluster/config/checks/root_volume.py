"""Rules about the root disks of nodes."""

from __future__ import annotations

from gpucluster.config.document import Finding, Path
from gpucluster.config.models import ClusterConfig
from gpucluster.config.nodes import EBS_TYPES, HeadNode, ParameterServers, Partition
from gpucluster.config.validators import Findings, Validators

validator = Validators("Root disks")

DEFAULT_GIB, DEFAULT_IOPS, IOPS_PER_GIB, MIBPS_PER_IOPS = 100, 3000, 500, 0.25
PUBLISHED_GIB = {"dlami-ubuntu-24.04": 75}
"""The size of the published images' own disks."""


@validator("root-volume-iops-fit", f"{EBS_TYPES}; error InvalidParameterValue of EC2 RunInstances")
def root_volume_iops_fit(nodes: HeadNode | Partition | ParameterServers, path: Path, config: ClusterConfig) -> Findings:
    """A root disk has at most 500 IOPS for each GiB, and at most 0.25 MiB/s for each IOPS."""
    root, place = nodes.root_volume, (*path, "root_volume")
    # The disk of an image of the user's own may be larger than the default.
    gib = root.gib or (DEFAULT_GIB if _image(nodes, config) in PUBLISHED_GIB else None)
    if root.iops and gib and root.iops > max(DEFAULT_IOPS, gib * IOPS_PER_GIB):
        least = -(-root.iops // IOPS_PER_GIB)
        yield Finding(
            (*place, "iops"),
            f"a disk of {gib} GiB has at most {gib * IOPS_PER_GIB} IOPS, got {root.iops}",
            f"ask for fewer, or set gib to {least} or more",
        )
    most = int((root.iops or DEFAULT_IOPS) * MIBPS_PER_IOPS)
    if root.throughput_mibps and root.throughput_mibps > most:
        least = root.throughput_mibps * 4
        yield Finding(
            (*place, "throughput_mibps"),
            f"a disk of {root.iops or DEFAULT_IOPS} IOPS has at most {most} MiB/s, got {root.throughput_mibps}",
            f"ask for less, or set iops to {least} or more",
        )


@validator(
    "root-volume-holds-image",
    "https://docs.aws.amazon.com/dlami/latest/devguide/appendix-ami-release-notes.html; "
    "error InvalidBlockDeviceMapping: volume is smaller than snapshot",
)
def root_volume_holds_image(
    nodes: HeadNode | Partition | ParameterServers, path: Path, config: ClusterConfig
) -> Findings:
    """A root disk is as large as the published image: 75 GiB for the Deep Learning AMI."""
    image = _image(nodes, config)
    gib, least = nodes.root_volume.gib, PUBLISHED_GIB.get(image, 0)
    if gib is not None and gib < least:
        message = f"{image} needs a disk of {least} GiB, got {gib}"
        yield Finding((*path, "root_volume", "gib"), message, f"set it to {least} or more")


def _image(nodes: HeadNode | Partition | ParameterServers, config: ClusterConfig) -> str:
    return getattr(nodes, "image", None) or config.software.image
