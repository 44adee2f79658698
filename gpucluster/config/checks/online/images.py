"""Checks whether the machine images can be booted by the launch templates."""

from __future__ import annotations

from collections.abc import Iterator

from gpucluster.config.checks.online.account import Account, Answer
from gpucluster.config.checks.online.things import IMAGE
from gpucluster.config.document import Finding, Path
from gpucluster.config.models import ClusterConfig
from gpucluster.config.validators import Findings, Validators

validator = Validators("Images (asks AWS)", needs="aws")
DESCRIBE = "https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeImages.html"

PUBLIC_PARAMETERS = {
    "dlami-ubuntu-24.04": "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-24.04/latest/ami-id",
}
"""The SSM parameters in which AWS publishes the id of the newest image, in each region that has it."""

ROOT_DEVICE = "/dev/sda1"
"""The root device of Ubuntu's images: a mapping under another name would add a disk instead of encrypting this one."""

ROOT_VOLUME_GIB = 100
"""The Deep Learning AMIs need 75 GiB; the rest is for packages and containers."""


@validator(
    "image-bootable",
    f"{DESCRIBE}; error InvalidAMIID.Unavailable of EC2 RunInstances; error InvalidParameterValue: architecture; "
    "error InvalidParameterCombination: non-HVM images and instances with ENA; "
    "error InvalidBlockDeviceMapping: volume is smaller than snapshot",
)
def image_bootable(config: ClusterConfig, account: Account) -> Findings:
    """Each AMI is available, for x86_64, HVM with ENA, and boots from a volume /dev/sda1 of at most 100 GiB.

    Templates name that disk: of another name it would not be the one that they encrypt.
    """
    for path, ami in amis_of(config):
        for fault in _faults(IMAGE.look_up(account, ami) or {}):
            yield Finding(path, f"{ami} {fault}", f"aws ec2 describe-images --image-ids {ami}")


def _faults(image: Answer) -> Iterator[str]:
    if image.get("State", "available") != "available":
        yield f"is {image['State']}, not available"
    if image.get("Architecture", "x86_64") != "x86_64":
        yield f"is for {image['Architecture']}, but every supported instance type is x86_64"
    if image.get("VirtualizationType", "hvm") != "hvm":
        yield f"is {image['VirtualizationType']}, not hvm"
    if not image.get("EnaSupport", True):
        yield "lacks ENA, the driver of the instances' network interfaces"
    name = image.get("RootDeviceName", ROOT_DEVICE)
    if image.get("RootDeviceType", "ebs") != "ebs":
        yield f"boots from {image['RootDeviceType']}, not from an EBS volume"
    elif name != ROOT_DEVICE:
        yield f"boots from {name}: that disk would not be encrypted"
    for mapping in image.get("BlockDeviceMappings", []):
        gib = mapping.get("Ebs", {}).get("VolumeSize", 0)
        if mapping.get("DeviceName") == name and gib > ROOT_VOLUME_GIB:
            yield f"needs a disk of {gib} GiB, but nodes have {ROOT_VOLUME_GIB}"


def images_of(config: ClusterConfig) -> Iterator[tuple[Path, str]]:
    """Each image once, at the first key that names it."""
    seen: dict[str, Path] = {config.software.image: ("software", "image")}
    if config.head_node.image:
        seen.setdefault(config.head_node.image, ("head_node", "image"))
    for index, partition in enumerate(config.partitions):
        if partition.image:
            seen.setdefault(partition.image, ("partitions", index, "image"))
    yield from ((path, image) for image, path in seen.items())


def amis_of(config: ClusterConfig) -> Iterator[tuple[Path, str]]:
    yield from ((path, image) for path, image in images_of(config) if image.startswith("ami-"))


def published_of(config: ClusterConfig) -> Iterator[tuple[Path, str]]:
    yield from ((path, image) for path, image in images_of(config) if image in PUBLIC_PARAMETERS)
