from __future__ import annotations

from typing import Any

from validator_cases.case import cluster

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


CASES: dict[str, Online | list[Online]] = {
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
            OWN,
            key="software.image",
            says="ami-0123456789abcdef0 needs a disk of 200 GiB, but nodes have 100",
            fails=disk(200),
            passes=disk(100),
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
