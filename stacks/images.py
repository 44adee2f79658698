"""Resolves the name of a machine image in cluster.yaml to an AMI."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_kms as kms
from constructs import Construct

from gpucluster.baking import pins
from gpucluster.baking.recipe import Extras, recipe
from gpucluster.config import ClusterConfig

# AWS publishes the id of the newest image of a kind in such a parameter. CDK looks it up at the first synthesis and
# pins it in cdk.context.json, because a new image must not replace a head node unnoticed.
PARAMETERS = {
    "dlami-ubuntu-24.04": "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-24.04/latest/ami-id",
}
ROOT_DEVICE = "/dev/sda1"
"""The root device of Ubuntu's images: a mapping under another name would add a disk instead of encrypting this one."""

ROOT_VOLUME_GIB = 100
"""The Deep Learning AMIs need 75 GiB; the rest is for packages and containers."""


def machine_image(image: str, *, region: str) -> ec2.IMachineImage:
    if image in PARAMETERS:
        return ec2.MachineImage.from_ssm_parameter(
            PARAMETERS[image], os=ec2.OperatingSystemType.LINUX, cached_in_context=True
        )
    return ec2.MachineImage.generic_linux({region: image})


def node_image(scope: Construct, config: ClusterConfig, image: str) -> ec2.IMachineImage:
    """The image that nodes boot: the baked image if one of the current recipe is pinned, else the image itself.

    The head node does not use a baked image: a new image replaces the head node, and only a change of the file may do
    that.
    """
    plain = machine_image(image, region=config.region)
    baking = pins.Baking(
        account=cdk.Stack.of(scope).account,
        region=config.region,
        base=plain.get_image(scope).image_id,
        recipe=recipe(Extras.of(config)),
    )
    baked = pins.find(pins.read(config._document.file), baking)
    return ec2.MachineImage.generic_linux({config.region: baked}) if baked else plain


def root_device(key: kms.IKey | None) -> ec2.BlockDevice:
    """The root volume of an instance in the template, encrypted."""
    volume = ec2.BlockDeviceVolume.ebs(
        ROOT_VOLUME_GIB, encrypted=True, kms_key=key, volume_type=ec2.EbsDeviceVolumeType.GP3
    )
    return ec2.BlockDevice(device_name=ROOT_DEVICE, volume=volume)
