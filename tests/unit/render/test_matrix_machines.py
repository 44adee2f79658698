"""The matrix of drivers and libraries: every GPU type has a row, and each row accepts what it installs."""

from __future__ import annotations

import re

import pytest

from gpucluster import render
from gpucluster.hardware import software
from gpucluster.hardware.instances import INSTANCE_TYPES, InstanceType

GPU_TYPES = [each for each in INSTANCE_TYPES.values() if each.gpus]
ONE_WITHOUT_GPUS = {each.name.partition(".")[0]: each for each in INSTANCE_TYPES.values() if not each.gpus}


def parts(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.match(r"[0-9.]+", version)[0].strip(".").split("."))  # type: ignore[index]


@pytest.mark.parametrize("type_", GPU_TYPES, ids=lambda each: each.name)
def test_every_gpu_type_has_one_row(type_: InstanceType) -> None:
    family = software.FAMILIES[type_.gpu_model]
    assert [family in each.families for each in software.MACHINES].count(True) == 1
    assert software.machine(type_) is not None


@pytest.mark.parametrize("row", software.MACHINES, ids=lambda each: each.families[0])
@pytest.mark.parametrize("component", ["driver", "cuda", "nccl", "gdrcopy", "dcgm"])
def test_what_is_installed_is_accepted(row: software.Machine, component: str) -> None:
    versions: software.Versions = getattr(row, component)
    installed = parts(versions.installed)
    assert installed >= parts(versions.least)[: len(installed)]
    assert not versions.below or installed < parts(versions.below)


def test_v100_has_its_own_row() -> None:
    """No driver after 580 and no CUDA after 12 knows it, and NVIDIA's open modules never did."""
    volta = software.machine(INSTANCE_TYPES["p3dn.24xlarge"])
    modern = software.machine(INSTANCE_TYPES["p5.48xlarge"])
    assert volta and modern and volta is not modern
    assert (volta.kernel_module, modern.kernel_module) == ("proprietary", "open")
    assert parts(volta.driver.below) <= (590,) and parts(volta.cuda.below) == (13,)
    assert "cuda12" in volta.nccl.installed and "cuda13" in modern.nccl.installed


@pytest.mark.parametrize(
    ("name", "nvswitch", "gdrcopy"),
    [
        ("p3dn.24xlarge", False, False), ("p4d.24xlarge", True, True), ("p5.4xlarge", False, True),
        ("p5.48xlarge", True, True), ("p6-b300.48xlarge", True, True), ("g6e.48xlarge", False, False),
        ("c5n.18xlarge", False, False),
    ],
)  # fmt: skip
def test_nvswitch_and_gdrcopy(name: str, nvswitch: bool, gdrcopy: bool) -> None:
    type_ = INSTANCE_TYPES[name]
    assert (software.has_nvswitch(type_), software.uses_gdrcopy(type_)) == (nvswitch, gdrcopy)


def test_only_p6_needs_nvlinks_subnet_manager() -> None:
    named = {name for name, type_ in INSTANCE_TYPES.items() if software.has_nvlink_subnet_manager(type_)}
    assert named == {"p6-b200.48xlarge", "p6-b300.48xlarge"}
    assert "NVLSM=yes" in render.machine(INSTANCE_TYPES["p6-b200.48xlarge"])
    assert "NVLSM" not in render.machine(INSTANCE_TYPES["p5.48xlarge"])


OBSOLETE = {"FI_PROVIDER", "FI_EFA_USE_DEVICE_RDMA", "FI_EFA_FORK_SAFE", "RDMAV_FORK_SAFE", "NCCL_PROTO", "NCCL_DEBUG"}


@pytest.mark.parametrize("type_", [*GPU_TYPES, *ONE_WITHOUT_GPUS.values()], ids=lambda each: each.name)
def test_jobs_get_few_variables(type_: InstanceType) -> None:
    variables = software.job_environment(type_)
    assert not variables.keys() & OBSOLETE
    assert bool(variables) == bool(type_.gpus)
    assert ("NCCL_SHM_USE_CUDA_MEMCPY" in variables) == (type_.gpu_model in ("a10g", "l4"))
