"""Rules about the machine images of partitions."""

from __future__ import annotations

from gpucluster.config.checks.partitions import known_types
from gpucluster.config.document import Finding, Path
from gpucluster.config.models import ClusterConfig, Partition
from gpucluster.config.validators import Findings, validator

SECTION = "Images"

DLAMI_LACKS = {"v100": "its driver no longer supports V100"}
"""GPU models that the Deep Learning AMIs of today cannot drive (NVIDIA's open kernel module needs Turing or newer)."""


@validator(
    "image-drives-gpus",
    section=SECTION,
    each=Partition,
    source="https://docs.aws.amazon.com/dlami/latest/devguide/important-changes.html: P3 is not supported",
)
def image_drives_gpus(partition: Partition, path: Path, config: ClusterConfig) -> Findings:
    """The image has a driver for the partition's GPUs; the Deep Learning AMIs have none for V100."""
    image = partition.image or config.software.image
    for index, type_ in known_types(partition):
        if image.startswith("dlami-") and type_.gpu_model in DLAMI_LACKS:
            yield Finding(
                (*path, "instance_types", index),
                f"{type_.name} cannot run {image}: {DLAMI_LACKS[type_.gpu_model]}",
                "name an AMI with NVIDIA's proprietary driver, 580 or older, in the partition: image: ami-…",
            )
