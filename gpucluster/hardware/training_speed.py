"""How many images a GPU trains on, and a vCPU decodes, in a second: ResNet-50, 224 pixels, mixed precision, JPEGs as in
ImageNet. training_speed.csv has the origin of each figure. `gpucluster bench --feed` measures the user's own program.
"""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path

from gpucluster.hardware.instances import InstanceType

BYTES_PER_IMAGE = 115_000
"""ImageNet's 1,281,167 training images have 138 GiB (image-net.org/challenges/LSVRC/2012/2012-downloads.php)."""
OTHER_WORK = 0.1
"""The part of the vCPUs that the trainers, NCCL and the copies to the GPUs need."""


def trained_per_s(each: InstanceType) -> int | None:
    """Images that one of its GPUs takes. None if no figure is known."""
    return _table().get(each.gpu_model or "")


def decoded_per_s(each: InstanceType) -> int | None:
    """Images that the vCPUs of one of its GPUs give."""
    per_vcpu = _table().get(f"{each.name.partition('.')[0]} vCPU")
    return each.vcpus_per_gpu * per_vcpu if per_vcpu and each.gpus else None


def decodes_too_slowly(each: InstanceType) -> bool:
    trained, decoded = trained_per_s(each), decoded_per_s(each)
    return trained is not None and decoded is not None and decoded * (1 - OTHER_WORK) < trained


def sentence(each: InstanceType) -> str:
    """Empty if no figures are known."""
    trained, decoded = trained_per_s(each), decoded_per_s(each)
    if trained is None or decoded is None or not each.gpu_model:
        return ""
    gpu = each.gpu_model.upper()
    said = f"{each.name}: {each.vcpus_per_gpu} vCPUs per {gpu} decode about {hundreds(decoded)} images/s"
    takes = f"{said}; one {gpu} trains on about {hundreds(trained)} (ResNet-50)"
    return f"{takes}: decode on the GPU" if decodes_too_slowly(each) else takes


def hundreds(number: float) -> str:
    """Estimates are not exact to an image."""
    return f"{round(number, -2):,.0f}"


@cache
def _table() -> dict[str, int]:
    with Path(__file__).with_name("training_speed.csv").open(encoding="utf-8", newline="") as file:
        return {row["item"]: int(row["images_per_s"]) for row in csv.DictReader(file)}
