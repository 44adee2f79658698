from __future__ import annotations

import json
from typing import Any

from validator_cases.case import cluster, partition

from online_cases.case import Answers, Online

OWN = cluster(software={"image": "ami-0123456789abcdef0"})
IMAGE = {
    "ImageId": "ami-0123456789abcdef0",
    "State": "available",
    "Architecture": "x86_64",
    "VirtualizationType": "hvm",
    "EnaSupport": True,
    "RootDeviceType": "ebs",
    "RootDeviceName": "/dev/sda1",
}


def image(**keys: Any) -> Answers:
    return {"ec2 describe_images": {"Images": [{**IMAGE, **keys}]}}


def disk(gib: int) -> Answers:
    return image(BlockDeviceMappings=[{"DeviceName": "/dev/sda1", "Ebs": {"VolumeSize": gib}}])


KEY = "arn:aws:kms:us-east-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"
OTHER_KEY = "arn:aws:kms:us-east-1:123456789012:key/0ea3fef3-80a7-4778-9d8c-1c0c6EXAMPLE"
ROOT = "arn:aws:iam::123456789012:root"
KEYED = {**OWN, "security": {"kms_key_arn": KEY}}


def encrypted(
    key: str | None, *, owner: str = "123456789012", manager: str = "CUSTOMER", admits: str = ROOT
) -> Answers:
    """DescribeImages does not tell the key; DescribeSnapshots tells it of the account's own snapshots. `admits`: the
    principal of the key's policy, which admits it through EC2 only."""
    condition = {"StringEquals": {"kms:ViaService": "ec2.us-east-1.amazonaws.com", "kms:CallerAccount": "123456789012"}}
    statement = {"Effect": "Allow", "Principal": {"AWS": admits}, "Action": "kms:*", "Condition": condition}
    root = {"DeviceName": "/dev/sda1", "Ebs": {"SnapshotId": "snap-1", "Encrypted": True, "VolumeSize": 8}}
    return {
        **image(OwnerId=owner, BlockDeviceMappings=[root]),
        "ec2 describe_snapshots": {"Snapshots": [{"SnapshotId": "snap-1", "KmsKeyId": key}]}
        if key
        else "InvalidSnapshot.NotFound",
        "kms describe_key": {"KeyMetadata": {"KeyId": "x", "KeyManager": manager}},
        "kms get_key_policy": {"Policy": json.dumps({"Statement": [statement]})},
    }


# Names as Canonical, AWS, Red Hat, Rocky Linux, Debian and SUSE give them to their AMIs.
OTHER_SYSTEMS = {
    "Deep Learning Base OSS Nvidia Driver GPU AMI (Ubuntu 22.04) 20260916": "Ubuntu 22.04",
    "Deep Learning Base OSS Nvidia Driver GPU AMI (Ubuntu 26.04) 20260914": "Ubuntu 26.04",
    "Deep Learning OSS Nvidia Driver AMI GPU PyTorch 2.8 (Amazon Linux 2023) 20260210": "Amazon Linux",
    "ubuntu/images/hvm-ssd/ubuntu-jammy-22.04-amd64-server-20260901": "Ubuntu 22.04",
    "my-ubuntu2204-slurm": "Ubuntu 22.04",
    "slurm on focal": "Ubuntu 20.04",
    "al2023-ami-2023.9.20260105.0-kernel-6.12-x86_64": "Amazon Linux",
    "amzn2-ami-hvm-2.0.20260105.0-x86_64-gp2": "Amazon Linux",
    "RHEL-9.6.0_HVM-20260105-x86_64-0-Access2-GP3": "Red Hat Enterprise Linux",
    "Rocky-9-EC2-Base-9.6-20260601.0.x86_64": "Rocky Linux",
    "debian-12-amd64-20260601-2400": "Debian",
    "suse-sles-15-sp7-v20260601-hvm-ssd-x86_64": "SUSE Linux",
    "aws-parallelcluster-3.15.0-amzn2023-hvm-x86_64-202602101200": "Amazon Linux",
}
NAMES = (
    "Deep Learning Base OSS Nvidia Driver GPU AMI (Ubuntu 24.04) 20260710",
    "ubuntu/images/hvm-ssd-gp3/ubuntu-noble-24.04-amd64-server-20260901",
    "my-ubuntu2404-of-2022.04",
    "gpucluster-0123456789ab-ami-0123456789abcdef0-2",
    "training-20.04.2026",
    "ubuntu-base-20.10.2026",
    "focal-loss-training",
)

CASES: dict[str, Online | list[Online]] = {
    "image-system": [
        *(
            Online(
                OWN,
                key="software.image",
                says=f"ami-0123456789abcdef0 is of {system} by its name, {name!r}; nodes need Ubuntu 24.04",
                fails=image(Name=name, PlatformDetails="Linux/UNIX"),
                passes=image(Name=NAMES[index % len(NAMES)], PlatformDetails="Linux/UNIX"),
            )
            for index, (name, system) in enumerate(OTHER_SYSTEMS.items())
        ),
        *(
            Online(
                OWN,
                key="software.image",
                says=f"ami-0123456789abcdef0 is of {system}; nodes need Ubuntu 24.04",
                fails=image(**keys),
                passes=image(PlatformDetails="Ubuntu Pro"),
            )
            for system, keys in (
                ("Windows", {"Platform": "windows", "PlatformDetails": "Windows"}),
                ("Windows with SQL Server Web", {"PlatformDetails": "Windows with SQL Server Web", "Name": "x"}),
                ("Red Hat Enterprise Linux", {"PlatformDetails": "Red Hat Enterprise Linux", "Name": "RHEL-9.6.0_HVM"}),
                ("SUSE Linux", {"PlatformDetails": "SUSE Linux"}),
                ("windows", {"Platform": "windows"}),
            )
        ),
    ],
    "image-key": [
        Online(
            OWN,
            key="software.image",
            says=f"ami-0123456789abcdef0 is encrypted with {KEY}, which the head node's role may not use",
            fails=encrypted(KEY),
            passes=encrypted(KEY, manager="AWS"),
        ),
        Online(
            OWN,
            key="software.image",
            says=f"ami-0123456789abcdef0 is encrypted with {KEY}, which the head node's role may not use",
            fails=encrypted(KEY),
            passes=encrypted(KEY, admits="*"),
        ),
        Online(
            KEYED,
            key="software.image",
            says=f"ami-0123456789abcdef0 is encrypted with {OTHER_KEY}, which the head node's role may not use",
            fails=encrypted(OTHER_KEY),
            passes=encrypted(KEY),
        ),
        Online(
            OWN,
            key="software.image",
            says="ami-0123456789abcdef0 is encrypted with a key of the account 999999999999, "
            "which the head node's role may not use",
            fails=encrypted(None, owner="999999999999"),
            passes=image(OwnerId="999999999999"),
        ),
    ],
    "image-exists": Online(
        OWN,
        key="software.image",
        says="the account sees no ami-0123456789abcdef0 in us-east-1",
        fails={"ec2 describe_images": "InvalidAMIID.NotFound"},
        passes=image(),
    ),
    "image-bootable": [
        Online(
            OWN,
            key="software.image",
            says="ami-0123456789abcdef0 is pending, not available",
            fails=image(State="pending"),
            passes=image(),
        ),
        Online(
            OWN,
            key="software.image",
            says="ami-0123456789abcdef0 is for arm64, but every supported instance type is x86_64",
            fails=image(Architecture="arm64"),
            passes=image(),
        ),
        Online(
            OWN,
            key="software.image",
            says="ami-0123456789abcdef0 lacks ENA, the driver of the instances' network interfaces",
            fails=image(EnaSupport=False),
            passes=image(),
        ),
        Online(
            OWN,
            key="software.image",
            says="ami-0123456789abcdef0 is paravirtual, not hvm",
            fails=image(VirtualizationType="paravirtual"),
            passes=image(),
        ),
        Online(
            OWN,
            key="software.image",
            says="ami-0123456789abcdef0 boots from /dev/xvda: that disk would not be encrypted",
            fails=image(RootDeviceName="/dev/xvda"),
            passes=image(),
        ),
        Online(
            OWN,
            key="software.image",
            says="ami-0123456789abcdef0 boots from instance-store, not from an EBS volume",
            fails=image(RootDeviceType="instance-store"),
            passes=image(),
        ),
        Online(
            {**OWN, "head_node": {"root_volume": {"gib": 120}}},
            key="head_node.root_volume.gib",
            says="ami-0123456789abcdef0 needs a disk of 200 GiB, got 120",
            fails=disk(200),
            passes=disk(120),
        ),
        Online(
            partition(image="ami-0123456789abcdef0", root_volume={"gib": 50}),
            key="partitions[0].root_volume.gib",
            says="ami-0123456789abcdef0 needs a disk of 75 GiB, got 50",
            fails=disk(75),
            passes=disk(8),
        ),
    ],
    "image-published": Online(
        cluster(),
        key="software.image",
        says="AWS publishes no dlami-ubuntu-24.04 in us-east-1",
        fails={"ssm get_parameter": "ParameterNotFound"},
        passes={"ssm get_parameter": {"Parameter": {"Value": "ami-1"}}},
    ),
}
