"""Are the machine images there, and can they be booted as the launch templates boot them?"""

from __future__ import annotations

from collections.abc import Callable, Iterator

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
"""Where AWS publishes the id of the newest image of a kind, in each region that has it."""

ROOT_DEVICE = "/dev/sda1"
ROOT_VOLUME_GIB = 100
"""What launch templates name and ask for."""


@validator("image-available", "error InvalidAMIID.Unavailable of EC2 RunInstances")
def image_available(config: ClusterConfig, account: Account) -> Findings:
    """Each AMI is available: EC2 has finished making it, without an error."""
    for path, ami in amis_of(config):
        image = IMAGE.look_up(account, ami)
        if image and image["State"] != "available":
            yield Finding(path, f"{ami} is {image['State']}, not available")


@validator("image-architecture", f"{DESCRIBE}: Architecture; error InvalidParameterValue of RunInstances: architecture")
def image_architecture(config: ClusterConfig, account: Account) -> Findings:
    """Each AMI is for x86_64, as all instance types here are."""
    yield from _where(config, account, _other_architecture)


@validator(
    "image-virtualization",
    "error InvalidParameterCombination of EC2 RunInstances: non-HVM images and instances with ENA",
)
def image_virtualization(config: ClusterConfig, account: Account) -> Findings:
    """Each AMI is HVM and has the driver of the network interfaces (ENA) that instances have."""
    yield from _where(config, account, _no_hvm_with_ena)


@validator("image-root-device", f"{DESCRIBE}: RootDeviceName; AWS::EC2::LaunchTemplate BlockDeviceMapping.DeviceName")
def image_root_device(config: ClusterConfig, account: Account) -> Findings:
    """Each AMI boots from an EBS volume called /dev/sda1: templates encrypt the disk of that name."""
    yield from _where(config, account, _other_root_device)


@validator("image-root-size", "error InvalidBlockDeviceMapping of EC2 RunInstances: volume is smaller than snapshot")
def image_root_size(config: ClusterConfig, account: Account) -> Findings:
    """Each AMI fits on a disk of 100 GiB, which templates ask for."""
    yield from _where(config, account, _too_large)


def _where(config: ClusterConfig, account: Account, fault: Callable[[Answer], str | None]) -> Iterator[Finding]:
    for path, ami in amis_of(config):
        image = IMAGE.look_up(account, ami)
        text = fault(image) if image else None
        if text:
            yield Finding(path, f"{ami} {text}", f"aws ec2 describe-images --image-ids {ami}")


def _other_architecture(image: Answer) -> str | None:
    got = image.get("Architecture", "x86_64")
    return None if got == "x86_64" else f"is for {got}, and every instance type here is x86_64"


def _no_hvm_with_ena(image: Answer) -> str | None:
    if image.get("VirtualizationType", "hvm") != "hvm":
        return f"is {image['VirtualizationType']}, not hvm"
    return None if image.get("EnaSupport", True) else "lacks ENA, the driver of the instances' network interfaces"


def _other_root_device(image: Answer) -> str | None:
    if image.get("RootDeviceType", "ebs") != "ebs":
        return f"boots from {image['RootDeviceType']}, not from an EBS volume"
    name = image.get("RootDeviceName", ROOT_DEVICE)
    return None if name == ROOT_DEVICE else f"boots from {name}: its disk would not be the one that is encrypted"


def _too_large(image: Answer) -> str | None:
    for mapping in image.get("BlockDeviceMappings", []):
        gib = mapping.get("Ebs", {}).get("VolumeSize", 0)
        if mapping.get("DeviceName") == image.get("RootDeviceName") and gib > ROOT_VOLUME_GIB:
            return f"needs a disk of {gib} GiB, and nodes have {ROOT_VOLUME_GIB}"
    return None


def images_of(config: ClusterConfig) -> Iterator[tuple[Path, str]]:
    """Each once, at the first place that names it."""
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
