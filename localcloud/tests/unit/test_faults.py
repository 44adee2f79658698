"""The rules of faults on demand."""

from __future__ import annotations

import time
from typing import Any

import pytest

from localcloud.faults import Fault, FaultError, Faults, parse


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "a fault needs a kind"),
        ({"kind": "fire"}, "unknown fault 'fire'"),
        ({"kind": "throttle"}, "needs action"),
        ({"kind": "unavailable"}, "needs action"),
        ({"kind": "broken", "message": "x"}, "needs command"),
        ({"kind": "slow-boot"}, "needs delay_s"),
        ({"kind": "slow-dns"}, "needs delay_s"),
        ({"kind": "network-cut"}, "needs instance_id"),
        ({"kind": "no-metadata"}, "needs instance_id"),
        ({"kind": "interruption"}, "needs instance_id"),
        ({"kind": "event", "instance_id": "i-1", "delay_s": 60}, "needs code"),
        ({"kind": "event", "instance_id": "i-1", "delay_s": 60, "code": "reboot"}, "unknown event 'reboot'"),
        ({"kind": "block-end", "delay_s": 60}, "needs reservation_id"),
        ({"kind": "lost-gpu"}, "needs instance_id"),
        ({"kind": "kernel-log", "instance_id": "i-1"}, "needs message"),
        ({"kind": "clock-skew", "instance_id": "i-1"}, "needs value"),
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


def test_capacity_ends_after_some_instances() -> None:
    faults, place = Faults(), ("p5.48xlarge", "us-east-1a")
    faults.add(parse({"kind": "capacity", "value": 3}))
    assert (faults.no_capacity(*place, 4), faults.no_capacity(*place, 3)) == (True, False)
    assert faults.room(*place) == 3
    faults.launched(*place, 2)
    assert (faults.no_capacity(*place, 2), faults.no_capacity(*place, 1)) == (True, False)
    faults.launched(*place, 1)
    assert faults.no_capacity(*place)


def test_throttling_may_let_some_calls_a_second_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("localcloud.faults.time.monotonic", lambda: now[0])
    faults = Faults()
    faults.add(parse({"kind": "throttle", "action": "ec2:*", "value": 0.5}))
    assert [faults.throttled("ec2", "RunInstances") for _ in range(2)] == [False, True]
    assert not faults.throttled("ec2", "CreateTags")
    now[0] += 2
    assert [faults.throttled("ec2", "RunInstances") for _ in range(2)] == [False, True]


def test_a_service_may_be_unavailable() -> None:
    faults = Faults()
    faults.add(parse({"kind": "unavailable", "action": "ec2:*"}))
    assert faults.unavailable("ec2", "DescribeInstances")
    assert not faults.unavailable("ec2-instance-connect", "SendSSHPublicKey")
    assert not faults.throttled("ec2", "DescribeInstances")


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
    assert faults.clear(first.id) == [first]
    assert [rule["kind"] for rule in faults.list()] == ["failed-boot"]
    assert [rule.kind for rule in faults.clear()] == ["failed-boot"]
    assert faults.list() == []


def test_lost_hardware_and_clocks_are_of_one_instance() -> None:
    faults = Faults()
    faults.add(Fault("lost-gpu", instance_id="i-1"))
    faults.add(Fault("lost-gpu", instance_id="i-1", value=2))
    faults.add(Fault("clock-skew", instance_id="i-1", value=600))
    assert [faults.lost(each, "lost-gpu") for each in ("i-1", "i-2")] == [3, 0]
    assert faults.lost("i-1", "lost-efa") == 0
    assert [faults.clock_ahead_s(each) for each in ("i-1", "i-2")] == [600, 0]


@pytest.mark.parametrize(
    ("rule", "at_s", "status"),
    [
        (Fault("failed-boot"), 119, ("initializing", None)),
        (Fault("failed-boot"), 121, ("impaired", 0)),
        (Fault("slow-boot", delay_s=300), 299, ("impaired", 0)),
        (Fault("slow-boot", delay_s=300), 301, ("ok", None)),
        (Fault("network-cut", instance_id="i-1"), 59, ("ok", None)),
        (Fault("network-cut", instance_id="i-1"), 61, ("impaired", 60)),
        (Fault("network-cut", instance_id="i-2"), 61, ("ok", None)),
    ],
)
def test_the_status_check_of_an_instance_that_does_not_answer(
    rule: Fault, at_s: int, status: tuple[str, float | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1_000_000_000.0
    monkeypatch.setattr(time, "time", lambda: now)
    faults = Faults()
    faults.add(rule)
    faults.boot_fault("i-1", "g5.xlarge", {})
    now += at_s
    found, since = faults.status("i-1")
    assert (found, since if since is None else since - 1_000_000_000) == status


def test_resolvers_are_slow_until_the_rule_is_removed() -> None:
    faults = Faults()
    faults.add(Fault("slow-dns", delay_s=2))
    assert faults.dns_delay_s() == 2
    faults.clear()
    assert faults.dns_delay_s() == 0
