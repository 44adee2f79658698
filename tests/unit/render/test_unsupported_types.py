"""Each of EC2's types is in the table, or is known as one that is not supported."""

from __future__ import annotations

from typing import Any

import pytest
from moto.utilities.utils import load_resource

from gpucluster.config import loads
from gpucluster.config.checks.head import XEN_FAMILIES
from gpucluster.config.checks.placement import BURSTABLE
from gpucluster.errors import ConfigError
from gpucluster.hardware import unsupported
from gpucluster.hardware.instances import INSTANCE_TYPES
from gpucluster.hardware.unsupported import not_supported

CATALOGUE: dict[str, Any] = load_resource("ec2/resources/instance_types.json")


def test_every_type_of_ec2_is_in_the_table_or_has_a_reason() -> None:
    assert [name for name in CATALOGUE if name not in INSTANCE_TYPES and not not_supported(name)] == []
    assert [name for name in INSTANCE_TYPES if not_supported(name)] == []


def test_no_type_is_both_in_the_table_and_among_the_others() -> None:
    others = {f"{family}.{size}" for family, sizes in unsupported._families().items() for size in sizes}
    assert others & INSTANCE_TYPES.keys() == set()


def test_arm_is_the_reason_of_exactly_the_types_with_arm() -> None:
    arm = {name for name, each in CATALOGUE.items() if "arm64" in each["ProcessorInfo"]["SupportedArchitectures"]}
    assert {name for name in CATALOGUE if "Arm" in not_supported(name)} == arm


@pytest.mark.parametrize(
    "family", ["c5", "c5a", "c5n", "c6a", "c6i", "c7i", "m5", "m6a", "m6i", "m7i", "r5", "r6i", "t3", "t3a"]
)
def test_common_families_of_head_nodes_are_supported(family: str) -> None:
    assert f"{family}.xlarge" in INSTANCE_TYPES


@pytest.mark.parametrize(
    "typo", ["c5large", "c5.lrge", "c99.large", "g5xlarge", "m6in.3xlarge", "quantum.huge", "", "."]
)
def test_a_name_that_ec2_does_not_have_is_a_typing_error(typo: str) -> None:
    assert not_supported(typo) == ""


def test_a_real_type_is_not_called_unknown() -> None:
    with pytest.raises(ConfigError) as caught:
        loads("name: a\nregion: us-east-1\npartitions: [{name: a, instance_types: [r7i.2xlarge], max_nodes: 1}]\n")
    (problem,) = caught.value.problems
    assert problem.message == "'r7i.2xlarge' is an instance type that GpuCluster does not support"
    assert problem.hint and "of that size it has r6i.2xlarge" in problem.hint


def test_the_rules_about_families_know_those_of_the_table() -> None:
    described = {name: CATALOGUE[name] for name in INSTANCE_TYPES if name in CATALOGUE}
    on_xen = {name for name, each in described.items() if each.get("Hypervisor") == "xen"}
    assert {name for name in described if name.startswith(XEN_FAMILIES)} == on_xen
    apart = {
        name for name, each in described.items() if "cluster" not in each["PlacementGroupInfo"]["SupportedStrategies"]
    }
    assert {name for name in described if name.startswith(BURSTABLE)} == apart
