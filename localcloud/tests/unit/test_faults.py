"""The rules of faults on demand."""

from __future__ import annotations

from typing import Any

import pytest

from localcloud.faults import Fault, FaultError, Faults, parse


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "a fault needs a kind"),
        ({"kind": "fire"}, "unknown fault 'fire'"),
        ({"kind": "throttle"}, "needs action"),
        ({"kind": "broken", "message": "x"}, "needs command"),
        ({"kind": "slow-boot"}, "needs delay_s"),
        ({"kind": "interruption"}, "needs instance_id"),
        ({"kind": "event", "instance_id": "i-1", "delay_s": 60}, "needs code"),
        ({"kind": "event", "instance_id": "i-1", "delay_s": 60, "code": "reboot"}, "unknown event 'reboot'"),
        ({"kind": "capacity", "count": 0}, "at least 1"),
        ({"kind": "capacity", "zone": "us-east-1a"}, "unknown field 'zone'"),
    ],
)
def test_an_invalid_rule_is_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(FaultError, match=message):
        parse(values)


@pytest.mark.parametrize(
    ("rule", "hit", "missed"),
    [
        ({}, [("p5.48xlarge", "us-east-1a"), ("g5.xlarge", "us-east-1b")], []),
        ({"instance_type": "p5.48xlarge"}, [("p5.48xlarge", "us-east-1b")], [("g5.xlarge", "us-east-1a")]),
        ({"availability_zone": "us-east-1a"}, [("g5.xlarge", "us-east-1a")], [("g5.xlarge", "us-east-1b")]),
    ],
)
def test_capacity_fails_by_type_and_zone(rule: dict[str, Any], hit: list[Any], missed: list[Any]) -> None:
    faults = Faults()
    faults.add(parse({"kind": "capacity"} | rule))
    assert all(faults.no_capacity(*launch) for launch in hit)
    assert not any(faults.no_capacity(*launch) for launch in missed)


def test_a_rule_with_a_count_is_removed_after_its_uses() -> None:
    faults = Faults()
    faults.add(Fault("throttle", action="RunInstances", count=2))
    assert [faults.throttled("ec2", "RunInstances") for _ in range(3)] == [True, True, False]
    assert faults.list() == []


@pytest.mark.parametrize(
    ("named", "hits"), [("RunInstances", True), ("ec2:RunInstances", True), ("s3:PutObject", False)]
)
def test_throttling_names_an_action_with_or_without_its_service(named: str, hits: bool) -> None:
    faults = Faults()
    faults.add(Fault("throttle", action=named))
    assert faults.throttled("ec2", "RunInstances") is hits


@pytest.mark.parametrize(
    ("rule", "matches"),
    [
        ({}, True),
        ({"tag": "role"}, True),
        ({"tag": "role=compute"}, True),
        ({"tag": "role=head"}, False),
        ({"tag": "other"}, False),
        ({"instance_type": "g5.xlarge"}, False),
    ],
)
def test_boot_faults_choose_instances_by_tag_and_type(rule: dict[str, Any], matches: bool) -> None:
    faults = Faults()
    faults.add(parse({"kind": "failed-boot"} | rule))
    assert faults.boot_fault("i-1", "p4d.24xlarge", {"role": "compute"}).never_boots is matches


def test_boot_faults_add_up() -> None:
    faults = Faults()
    faults.add(Fault("slow-boot", delay_s=2))
    faults.add(Fault("slow-boot", delay_s=3))
    faults.add(Fault("broken", command="mount", message="no such device"))
    faults.add(Fault("broken", command="aws"))
    fault = faults.boot_fault("i-1", "g5.xlarge", {})
    assert (fault.delay_s, fault.never_boots) == (5, False)
    assert fault.broken_commands == {"mount": "no such device", "aws": "aws: broken by a localcloud fault"}


def test_next_n_launches_only() -> None:
    faults = Faults()
    faults.add(Fault("failed-boot", count=1))
    assert [faults.boot_fault(i, "g5.xlarge", {}).never_boots for i in ("i-1", "i-2")] == [True, False]


def test_one_rule_or_all_can_be_removed() -> None:
    faults = Faults()
    first, _ = faults.add(Fault("capacity")), faults.add(Fault("failed-boot"))
    assert faults.clear(first.id) == 1
    assert [rule["kind"] for rule in faults.list()] == ["failed-boot"]
    assert faults.clear() == 1
    assert faults.list() == []
