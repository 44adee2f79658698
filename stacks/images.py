"""From the name of a machine image in cluster.yaml to an AMI."""

from __future__ import annotations

from aws_cdk import aws_ec2 as ec2

# AWS publishes the id of the newest image of a kind under such a parameter. It is looked up once, at the first
# synthesis, and then pinned in cdk.context.json: a new image must not replace a head node behind anybody's back.
PARAMETERS = {
    "dlami-ubuntu-24.04": "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-24.04/latest/ami-id",
}
ROOT_DEVICE = "/dev/sda1"
"""The root device of Ubuntu's images: a mapping under another name would add a disk instead of encrypting this one."""

ROOT_VOLUME_GIB = 100
"""The Deep Learning images need 75 GiB; the rest is for packages and containers."""


def machine_image(image: str, *, region: str) -> ec2.IMachineImage:
    if image in PARAMETERS:
        return ec2.MachineImage.from_ssm_parameter(
            PARAMETERS[image], os=ec2.OperatingSystemType.LINUX, cached_in_context=True
        )
    return ec2.MachineImage.generic_linux({region: image})
