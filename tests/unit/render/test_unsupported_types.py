"""Each of EC2's types is in the table, or is known as one that is not supported."""

from __future__ import annotations

from typing import Any

import pytest
from moto.utilities.utils import load_resource

from gpucluster.config import loads
from gpucluster.errors import ConfigError
from gpucluster.hardware import unsupported
from gpucluster.hardware.instances import INSTANCE_TYPES
from gpucluster.hardware.unsupported import not_supported

CATALOGUE: dict[str, Any] = load_resource("ec2/resources/instance_types.json")


def test_every_type_of_ec2_is_in_the_table_or_has_a_reason() -> None:
    assert [name for name in CATALOGUE if name not in INSTANCE_TYPES and not not_supported(name)] == []
    assert [name for name in INSTANCE_TYPES if not_supported(name)] == []


def test_no_type_is_both_in_the_table_and_among_the_others() -> None:
    assert unsupported._others().keys() & INSTANCE_TYPES.keys() == set()


def test_arm_is_the_reason_of_exactly_the_types_with_arm() -> None:
    arm = {name for name, each in CATALOGUE.items() if "arm64" in each["ProcessorInfo"]["SupportedArchitectures"]}
    assert {name for name in CATALOGUE if "Arm" in not_supported(name)} == arm


def test_every_x86_type_without_accelerators_and_with_enough_memory_can_be_used() -> None:
    accelerated = ("GpuInfo", "FpgaInfo", "NeuronInfo", "InferenceAcceleratorInfo", "MediaAcceleratorInfo")
    usable = {
        name
        for name, each in CATALOGUE.items()
        if "x86_64" in each["ProcessorInfo"]["SupportedArchitectures"]
        and not any(key in each for key in accelerated)
        and each["MemoryInfo"]["SizeInMiB"] >= 4096
    }
    assert usable - INSTANCE_TYPES.keys() == {"trn2u.48xlarge"}


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("c7a.medium", "it has 2 GiB of memory, less than 4; the smallest of its family that GpuCluster supports is "
         "c7a.large"),
        ("t1.micro", "it has 0.61 GiB of memory, less than 4"),
        ("i3.metal", "AWS offers it to few accounts or no longer, and its catalogue does not describe it"),
        ("g7.2xlarge", "GpuCluster has no drivers and libraries for its accelerators"),
        ("trn2u.48xlarge", "its accelerators are not GPUs"),
    ],
)  # fmt: skip
def test_a_type_that_cannot_be_used_is_told_why(name: str, why: str) -> None:
    assert not_supported(name) == why


@pytest.mark.parametrize(
    "typo", ["c5large", "c5.lrge", "c99.large", "g5xlarge", "m6in.3xlarge", "quantum.huge", "", "."]
)
def test_a_name_that_ec2_does_not_have_is_a_typing_error(typo: str) -> None:
    assert not_supported(typo) == ""


def test_a_real_type_is_not_called_unknown() -> None:
    with pytest.raises(ConfigError) as caught:
        loads("name: a\nregion: us-east-1\npartitions: [{name: a, instance_types: [c4.large], max_nodes: 1}]\n")
    (problem,) = caught.value.problems
    assert problem.message == "'c4.large' is an instance type that GpuCluster does not support"
    assert problem.hint and "less than 4" in problem.hint
