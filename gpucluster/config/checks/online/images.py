"""Checks whether the machine images can be booted by the launch templates."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpucluster.config.checks.online import keys
from gpucluster.config.checks.online.account import Account, Answer
from gpucluster.config.checks.online.things import IMAGE, KEY, SNAPSHOT
from gpucluster.config.document import Finding, Path
from gpucluster.config.models import ClusterConfig
from gpucluster.config.nodes import RootVolume
from gpucluster.config.validators import Findings, Validators

validator = Validators("Images (asks AWS)", needs="aws")
DESCRIBE = "https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeImages.html"

PUBLIC_PARAMETERS = {
    "dlami-ubuntu-24.04": "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-24.04/latest/ami-id",
}
"""The SSM parameters in which AWS publishes the id of the newest image, in each region that has it."""

PLATFORMS = ("Linux/UNIX", "Ubuntu Pro")
"""EC2's platform details that Ubuntu's images can have; most images of other free systems are Linux/UNIX too."""

_UBUNTU = re.compile(r"ubuntu\D{0,9}(\d\d)\.?(04|10)(?!\d|\.20\d\d(?!\d))", re.IGNORECASE)
"""A release. 20.10.2026 is a date."""
_CODENAMES = {"bionic": "18.04", "focal": "20.04", "jammy": "22.04"}
_FOCAL_LOSS = re.compile(r"focal[-_ ]?loss", re.IGNORECASE)
_SYSTEMS = (
    (re.compile(r"amazon linux|\bal20\d\d\b|amzn2|amzn20", re.IGNORECASE), "Amazon Linux"),
    (re.compile(r"\brhel", re.IGNORECASE), "Red Hat Enterprise Linux"),
    (re.compile(r"\brocky", re.IGNORECASE), "Rocky Linux"),
    (re.compile(r"\balma ?linux", re.IGNORECASE), "AlmaLinux"),
    (re.compile(r"\bcentos", re.IGNORECASE), "CentOS"),
    (re.compile(r"\bdebian-?\d", re.IGNORECASE), "Debian"),
    (re.compile(r"\bsuse-|\bsles-", re.IGNORECASE), "SUSE Linux"),
    (re.compile(r"\bwindows_server", re.IGNORECASE), "Windows"),
)
"""How AMIs of other systems are named by those who publish them, and by many who copy them."""

ROOT_DEVICE = "/dev/sda1"
"""The root device of Ubuntu's images: a mapping under another name would add a disk instead of encrypting this one."""

ROOT_VOLUME_GIB = 100
"""By default. The Deep Learning AMIs need 75 GiB; the rest is for packages and containers."""


@validator(
    "image-bootable",
    f"{DESCRIBE}; error InvalidAMIID.Unavailable of EC2 RunInstances; error InvalidParameterValue: architecture; "
    "error InvalidParameterCombination: non-HVM images and instances with ENA; "
    "error InvalidBlockDeviceMapping: volume is smaller than snapshot",
)
def image_bootable(config: ClusterConfig, account: Account) -> Findings:
    """Each AMI is available, for x86_64, HVM with ENA, and boots from a volume /dev/sda1 no larger than root_volume.

    Templates name that disk: of another name it would not be the one that they encrypt.
    """
    for path, ami in amis_of(config):
        image = IMAGE.look_up(account, ami) or {}
        for fault in _faults(image):
            yield Finding(path, f"{ami} {fault}", f"aws ec2 describe-images --image-ids {ami}")
        for place, gib in _root_volumes(config, ami):
            if gib < root_gib(image):
                message = f"{ami} needs a disk of {root_gib(image)} GiB, got {gib}"
                yield Finding(place, message, "make it larger, or leave it out: nodes then have as much as the image")


def root_gib(image: Answer) -> int:
    """The size of the image's own disk; 0 if EC2 does not tell."""
    name = image.get("RootDeviceName", ROOT_DEVICE)
    disks = (each.get("Ebs", {}) for each in image.get("BlockDeviceMappings", []) if each.get("DeviceName") == name)
    return max((int(disk.get("VolumeSize", 0)) for disk in disks), default=0)


def _root_volumes(config: ClusterConfig, ami: str) -> Iterator[tuple[Path, int]]:
    """The sizes that the file has for disks with this image."""
    nodes: list[tuple[Path, str | None, RootVolume]] = [
        (("head_node",), config.head_node.image, config.head_node.root_volume)
    ]
    nodes += [(path, each.image, each.root_volume) for path, each in config.partitions_by_path()]
    for path, image, root in nodes:
        if (image or config.software.image) == ami and root.gib is not None:
            yield (*path, "root_volume", "gib"), root.gib


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


@validator(
    "image-system",
    "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/billing-info-fields.html: PlatformDetails; "
    "https://documentation.ubuntu.com/aws/aws-how-to/instances/find-ubuntu-images/: names; "
    "https://packages.ubuntu.com/jammy/slurmctld: 21.08, whose nodes Slurm 23.11 does not accept",
)
def image_system(config: ClusterConfig, account: Account) -> Findings:
    """Each AMI is of Ubuntu 24.04, as far as its platform and its name tell."""
    for path, ami in amis_of(config):
        image = IMAGE.look_up(account, ami) or {}
        platform, name = image.get("PlatformDetails") or image.get("Platform", "Linux/UNIX"), image.get("Name", "")
        hint = "name an AMI of Ubuntu 24.04"
        if platform not in PLATFORMS:
            yield Finding(path, f"{ami} is of {platform}; nodes need Ubuntu 24.04", hint)
        elif system := _other_system(name):
            yield Finding(
                path,
                f"{ami} is of {system} by its name, {name!r}; nodes need Ubuntu 24.04",
                f"{hint}; if this one is, write silence: [image-system]",
            )


def _other_system(name: str) -> str | None:
    """The system that the name of an image tells. None if it is Ubuntu 24.04, or if the name tells none."""
    if found := _UBUNTU.search(name):
        release = f"{found[1]}.{found[2]}"
    else:
        words = _FOCAL_LOSS.sub("", name).lower()
        release = next((_CODENAMES[word] for word in _CODENAMES if word in words), "")
    if release:
        return None if release == "24.04" else f"Ubuntu {release}"
    return next((system for pattern, system in _SYSTEMS if pattern.search(name)), None)


@validator(
    "image-key",
    "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/AMIEncryption.html: permissions on the key of the source; "
    "https://docs.aws.amazon.com/ebs/latest/userguide/ebs-encryption-requirements.html; "
    "error Client.InternalError of an instance: Client error on launch",
)
def image_key(config: ClusterConfig, account: Account) -> Findings:
    """No AMI is encrypted with a KMS key other than AWS's own, kms_key_arn, or one whose policy admits everybody in the
    account: nodes could not be launched from it."""
    for path, ami in amis_of(config):
        image = IMAGE.look_up(account, ami) or {}
        if key := _foreign_key(image, config, account):
            yield Finding(
                path,
                f"{ami} is encrypted with {key}, which the head node's role may not use",
                "copy it with a key that the role may use: aws ec2 copy-image --encrypted; or name its key in "
                "security.kms_key_arn; if the key's policy admits the role, write silence: [image-key]",
            )


def _foreign_key(image: Answer, config: ClusterConfig, account: Account) -> str | None:
    """The key of one of its disks that the head node's role may not use."""
    disks = [mapping.get("Ebs", {}) for mapping in image.get("BlockDeviceMappings", [])]
    for disk in (each for each in disks if each.get("Encrypted") and each.get("SnapshotId")):
        key = (SNAPSHOT.look_up(account, disk["SnapshotId"]) or {}).get("KmsKeyId")
        if key is None:  # the snapshot of a shared image is not shared
            return f"a key of the account {image.get('OwnerId', 'that shares it')}"
        if key == config.security.kms_key_arn or (KEY.look_up(account, key) or {}).get("KeyManager") == "AWS":
            continue
        if not keys.admits_everybody(account, key):
            return str(key)
    return None


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
