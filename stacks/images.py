"""Resolves the name of a machine image in cluster.yaml to an AMI."""

from __future__ import annotations

from functools import lru_cache

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_kms as kms

from gpucluster.baking import pins, roots
from gpucluster.baking.recipe import Extras, recipe
from gpucluster.config import ClusterConfig
from gpucluster.config.checks.online.images import PUBLIC_PARAMETERS, ROOT_DEVICE, ROOT_VOLUME_GIB
from gpucluster.config.nodes import AS_USUAL, RootVolume
from stacks.encryption import key_arn

Template = ec2.CfnLaunchTemplate


@lru_cache(maxsize=8)
def machine_image(image: str, *, region: str) -> ec2.IMachineImage:
    if image in PUBLIC_PARAMETERS:  # CDK pins its value in cdk.context.json: a new image must not replace a head node
        return ec2.MachineImage.from_ssm_parameter(
            PUBLIC_PARAMETERS[image], os=ec2.OperatingSystemType.LINUX, cached_in_context=True
        )
    return ec2.MachineImage.generic_linux({region: image})


@lru_cache(maxsize=8)
def image_id(stack: cdk.Stack, image: str) -> str:
    return machine_image(image, region=stack.region).get_image(stack).image_id


def node_image_id(stack: cdk.Stack, config: ClusterConfig, image: str) -> str:
    """The image that nodes boot: the baked image if one of the current recipe is pinned, else the image itself.

    The head node does not use a baked image: a new image replaces the head node, and only a change of the file may do
    that.
    """
    base = image_id(stack, image)
    made_of = recipe(Extras.of(config))
    baking = pins.Baking(account=stack.account, region=config.region, base=base, recipe=made_of)
    return pins.find(pins.read(config._document.file), baking) or base


def root_disk(
    key: kms.IKey | None, gib: int = ROOT_VOLUME_GIB, root: RootVolume = AS_USUAL
) -> Template.BlockDeviceMappingProperty:
    """The root volume of an instance, encrypted."""
    ebs = Template.EbsProperty(
        volume_size=gib,
        volume_type="gp3",
        iops=root.iops,
        throughput=root.throughput_mibps,
        encrypted=True,
        kms_key_id=key_arn(key),
        delete_on_termination=True,
    )
    return Template.BlockDeviceMappingProperty(device_name=ROOT_DEVICE, ebs=ebs)


def root_device(key: kms.IKey | None, gib: int = ROOT_VOLUME_GIB, root: RootVolume = AS_USUAL) -> ec2.BlockDevice:
    """The same for an instance of the template, without its throughput: AWS::EC2::Instance has no property for it."""
    volume = ec2.BlockDeviceVolume.ebs(
        gib, encrypted=True, kms_key=key, volume_type=ec2.EbsDeviceVolumeType.GP3, iops=root.iops
    )
    return ec2.BlockDevice(device_name=ROOT_DEVICE, volume=volume)


def root_gib(config: ClusterConfig, image: str, baked: bool, root: RootVolume) -> int:
    """Its size. A baked image's disk is as large as its builder's."""
    size = roots.gib(pins.read(config._document.file), image, root.gib)
    return max(size, roots.gib(pins.read(config._document.file), image, None)) if baked else size
