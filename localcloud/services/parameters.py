"""Public SSM parameters of machine images, and the images behind them.

All images boot the same root file system. The parameters exist so that templates can look up an image. moto has
Amazon Linux's parameters; this adds those of Ubuntu and of the Deep Learning AMIs.
"""

from __future__ import annotations

import hashlib

from moto.core.utils import utcnow
from moto.ec2.models import EC2Backend, ec2_backends
from moto.ec2.models.amis import Ami
from moto.ssm.models import Parameter, SimpleSystemManagerBackend, ssm_backends

from localcloud.clients import ACCOUNT_ID
from localcloud.runtime import Locks

_DLAMI = "/aws/service/deeplearning/ami/x86_64/{}/latest/ami-id"
_UBUNTU = "/aws/service/canonical/ubuntu/server/{}/stable/current/amd64/hvm/ebs-gp3/ami-id"
_BASE = "Deep Learning Base OSS Nvidia Driver GPU AMI ({})"
_NVIDIA = "base-oss-nvidia-driver-gpu-{}"
# parameter -> image name
PUBLIC_IMAGES = {
    _DLAMI.format(_NVIDIA.format("ubuntu-24.04")): _BASE.format("Ubuntu 24.04"),
    _DLAMI.format(_NVIDIA.format("ubuntu-22.04")): _BASE.format("Ubuntu 22.04"),
    _DLAMI.format(_NVIDIA.format("amazon-linux-2023")): _BASE.format("Amazon Linux 2023"),
    _UBUNTU.format("24.04"): "ubuntu/images/hvm-ssd-gp3/ubuntu-noble-24.04-amd64-server",
    _UBUNTU.format("22.04"): "ubuntu/images/hvm-ssd-gp3/ubuntu-jammy-22.04-amd64-server",
}
_AMAZON_LINUX = "/aws/service/ami-amazon-linux-latest/"

_FIRST = next(iter(PUBLIC_IMAGES))


def seed(locks: Locks, region: str) -> None:
    """Once per region."""
    if region not in ec2_backends[ACCOUNT_ID] or _is_seeded(region):
        return
    with locks.holding("ssm"):
        if not _is_seeded(region):
            _fill(region)


def _is_seeded(region: str) -> bool:
    return _FIRST in ssm_backends[ACCOUNT_ID][region]._parameters


def _fill(region: str) -> None:
    ssm: SimpleSystemManagerBackend = ssm_backends[ACCOUNT_ID][region]
    ec2: EC2Backend = ec2_backends[ACCOUNT_ID][region]
    for name, image_name in PUBLIC_IMAGES.items():
        image_id = f"ami-{hashlib.sha256(f'{region} {name}'.encode()).hexdigest()[:17]}"
        _put(ssm, region, name, image_id)
        _register(ec2, image_id, image_name)
    for parameter in ssm.get_parameters_by_path(_AMAZON_LINUX, recursive=True, filters=None)[0]:
        _register(ec2, parameter.value, parameter.name.rpartition("/")[2])


def _put(ssm: SimpleSystemManagerBackend, region: str, name: str, value: str) -> None:
    ssm._parameters[name].append(
        Parameter(  # type: ignore[abstract]  # moto itself instantiates it so
            account_id=ACCOUNT_ID,
            name=name,
            value=value,
            parameter_type="String",
            description="",
            allowed_pattern=None,
            keyid=None,
            last_modified_date=utcnow(),
            version=1,
            data_type="aws:ec2:image",
        )
    )


def _register(ec2: EC2Backend, image_id: str, name: str) -> None:
    if image_id in ec2.amis:
        return
    ec2.amis[image_id] = Ami(
        ec2,
        image_id,
        name=name,
        description=name,
        owner_id="898082745236",
        owner_alias="amazon",
        public=True,
        virtualization_type="hvm",
        architecture="arm64" if "arm64" in name else "x86_64",
        hypervisor="xen",
        root_device_type="ebs",
        root_device_name="/dev/xvda" if name.startswith(("al2023", "amzn2")) else "/dev/sda1",
        region_name=ec2.region_name,
    )
