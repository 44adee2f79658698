"""Rules about the machine images of partitions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from gpucluster.config.checks.partitions import known_types
from gpucluster.config.document import Finding, Path
from gpucluster.config.models import ClusterConfig
from gpucluster.config.nodes import Partition
from gpucluster.config.section import NotValidated
from gpucluster.config.validators import Findings, Validators
from gpucluster.hardware.instances import InstanceType

validator = Validators("Images")

DLAMI_LACKS = {"v100": "its driver no longer supports V100"}
"""GPU models that the Deep Learning AMIs of today cannot drive (NVIDIA's open kernel module needs Turing or newer)."""

NEED_PROPRIETARY_DRIVER = ("v100",)
NEED_OPEN_DRIVER = ("b200", "b300")


@validator(
    "image-drives-gpus", "https://docs.aws.amazon.com/dlami/latest/devguide/important-changes.html: P3 is not supported"
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


@validator(
    "image-one-driver",
    "https://developer.nvidia.com/blog/nvidia-transitions-fully-towards-open-source-gpu-kernel-modules/: "
    "Blackwell runs with the open kernel modules only, Volta with the proprietary ones only",
)
def image_one_driver(config: ClusterConfig) -> Findings:
    """V100 and B200 or B300 run different images: no driver supports both."""
    closed = {image: type_.name for image, _, _, type_ in _images(config) if type_.gpu_model in NEED_PROPRIETARY_DRIVER}
    for image, partition, index, type_ in _images(config):
        if image in closed and type_.gpu_model in NEED_OPEN_DRIVER:
            yield Finding(
                ("partitions", partition, "instance_types", index),
                f"{type_.name} and {closed[image]} share no driver: NVIDIA's open one and the proprietary one",
                "put them in separate partitions, each with its own image",
            )


def _images(config: ClusterConfig) -> Iterator[tuple[str, int, int, InstanceType]]:
    """For each type of each partition: the image, the index of the partition and of the type, the type."""
    for place, partition in enumerate(config.partitions):
        with suppress(NotValidated):
            for index, type_ in known_types(partition):
                yield partition.image or config.software.image, place, index, type_
