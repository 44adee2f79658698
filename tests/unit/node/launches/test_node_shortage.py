"""Launches that wait for capacity: their turns, and how they end."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import patch

import pytest
from gpucluster_node import slurm
from gpucluster_node.power import resume, shortage
from stubbed_aws import (
    GROUP,
    ICE,
    SINGLES,
    TYPES,
    Stubs,
    expect_names,
    expect_records,
    instance,
    parameter,
    refusing_parameters,
    resumed,
    run_instances,
)


class Waiting:
    """Slurm and a user, while a launch waits for capacity."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.state, self.slept, self.updates = folder, "ALLOCATED", 0.0, list[list[str]]()
        self.read: set[str] = set()
        self.cancelled_after_s = float("inf")
        monkeypatch.setattr(slurm, "call", self._scontrol)

    def _scontrol(self, argv: Sequence[str]) -> str:
        if argv[1] == "update":
            self.updates.append(list(argv))
            return ""
        state = "ALLOCATED" if self.slept < self.cancelled_after_s else "IDLE"
        return "".join(
            f"NodeName={name} Arch=x86_64 State={state}+CLOUD+NOT_RESPONDING+POWERING_UP Partitions=train\n"
            for name in argv[3].split(",")
        )

    def sleep(self, seconds: float) -> None:
        self.slept += seconds
        self.read |= {
            why for path in self.folder.glob("*.json") for why in json.loads(path.read_text())["waits"].values()
        }


@pytest.fixture
def waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Waiting:
    return Waiting(tmp_path, monkeypatch)


def test_capacity_that_comes_back_is_found_within_20_s(
    stubs: Stubs, waiting: Waiting, counted: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    parameter(stubs, "partitions/train", {"instance_types": TYPES, "subnet_id": "subnet-1"})
    refusals_in_a_row = 4
    for _ in range(refusals_in_a_row):
        for _ in TYPES:
            stubs("ec2").add_client_error("run_instances", *ICE, http_status_code=500)
    stubs("ec2").add_response("run_instances", {"Instances": [instance(1), instance(2)]})
    parameter(stubs, "network", {"hosted_zone_id": "Z1"})
    expect_records(stubs, "UPSERT", {"train-1.c.internal": "10.0.0.1", "train-2.c.internal": "10.0.0.2"})
    expect_names(stubs, "0:train-[1-2]", 1, 2)
    resumed(GROUP, waiting.folder, waiting.sleep)
    assert refusals_in_a_row * 12 <= waiting.slept <= refusals_in_a_row * 20
    assert [update[2:] for update in waiting.updates] == [["nodename=train-1,train-2", "nodeaddr=10.0.0.1,10.0.0.2"]]
    why = "; ".join(f"{ICE[0]}: {ICE[1]} ({each['instance_type']})" for each in TYPES)
    assert waiting.read == {f"{why}; the head node retries every 15 s"}


def test_capacity_that_does_not_come_back_is_given_up(
    stubs: Stubs, waiting: Waiting, counted: list[tuple[str, str]]
) -> None:
    """Before Slurm gives up, so that a node that is launched late can still boot."""
    refusing_parameters(stubs)
    resume.client("ec2").meta.events.register("before-call", lambda **_: None)
    for _ in range(100):
        stubs("ec2").add_client_error("run_instances", *ICE, http_status_code=500)
    stub = stubs("ec2")
    resumed(GROUP, waiting.folder, waiting.sleep)
    asked = 100 - len(stub._queue)
    stub._queue.clear()
    assert 900 <= waiting.slept <= 920
    assert 900 / 18 <= asked <= 900 / 12 + 1
    reason = f"reason=InsufficientInstanceCapacity: {ICE[1]} (p4d.24xlarge); next try in 120 s"
    assert waiting.updates == [["scontrol", "update", "nodename=train-1,train-2", "state=down", reason]]


def test_a_cancelled_jobs_launch_is_not_retried(stubs: Stubs, waiting: Waiting, counted: list[tuple[str, str]]) -> None:
    refusing_parameters(stubs)
    stubs("ec2").add_client_error("run_instances", *ICE, http_status_code=500)
    waiting.cancelled_after_s = 0
    monkey = patch.object(shortage, "_BETWEEN_S", (16.0, 16.5))
    with monkey:
        resumed(GROUP, waiting.folder, waiting.sleep)
    reason = "reason=no job waits for it any longer, and EC2 has launched no instance; next try at once"
    assert waiting.updates == [["scontrol", "update", "nodename=train-1,train-2", "state=down", reason]]


def test_launches_of_a_partition_take_turns() -> None:
    now = 0.0
    first, second = (shortage.Turns("train", lambda: now) for _ in range(2))
    with first.waiting(), second.waiting():
        assert second.may_call(2), "no call has failed"
        first.failed()
        assert not first.may_call(2) and not second.may_call(2)
        assert shortage.Turns("ps", lambda: now).may_call(8), "of another partition"
        now += 17
        assert second.may_call(2)
        assert not first.may_call(2), "while the other one asks"
        second.succeeded()
        assert first.may_call(2)


def test_the_launch_of_the_fewest_nodes_asks_first() -> None:
    """Ten jobs of eight nodes wait, and one of two: capacity for two is found at the next turn, not at the tenth."""
    now = 0.0
    many, few = [shortage.Turns("train", lambda: now) for _ in range(10)], shortage.Turns("train", lambda: now)
    many[0].failed()
    with ExitStack() as waiting:
        for each in many:
            waiting.enter_context(each.waiting())
            assert not each.may_call(8)
        with few.waiting():
            assert not few.may_call(2)
            now += 17
            assert not any(each.may_call(8) for each in many)
            assert few.may_call(2)
        few.succeeded()
        assert all(each.may_call(8) for each in many), "there is some capacity"


def test_a_launch_that_gets_some_instances_gives_all_others_a_turn(
    stubs: Stubs, waiting: Waiting, counted: list[tuple[str, str]]
) -> None:
    """Jobs of one node use each instance that becomes free: a job of two nodes would never have a turn."""
    parameter(stubs, "partitions/train", {"instance_types": TYPES, "subnet_id": "subnet-1"})
    parameter(stubs, "network", {"hosted_zone_id": "Z1"})
    larger, may_call = shortage.Turns("train", lambda: 0.0), list[bool]()
    for numbers in ((1,), (2, 3, 4)):
        stubs("ec2").add_response("run_instances", {"Instances": [instance(number) for number in numbers]})
        addresses = {f"train-{number}.c.internal": f"10.0.0.{number}" for number in numbers}
        expect_records(stubs, "UPSERT", addresses)
        stubs("ec2").add_response("create_tags", {})
        if numbers == (1,):
            for _ in TYPES:
                stubs("ec2").add_client_error("run_instances", *ICE, http_status_code=500)

    def sleep(seconds: float) -> None:
        waiting.sleep(seconds)
        may_call.append(larger.may_call(2))

    with larger.waiting():
        resumed(SINGLES, waiting.folder, sleep)
    assert may_call == [True]


def test_a_new_launch_does_not_put_off_the_turn_of_those_that_wait() -> None:
    now = 0.0
    waits = shortage.Turns("train", lambda: now)
    waits.failed()
    with waits.waiting():
        turns = 0
        new = shortage.Turns("train", lambda: now)
        for _ in range(20):
            now += 1
            turns += waits.may_call(1)
            new.failed()
        assert turns == 1


@pytest.mark.parametrize("turn_s", shortage._BETWEEN_S)
def test_a_launch_without_capacity_uses_types_that_are_added_meanwhile(
    stubs: Stubs, waiting: Waiting, counted: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch, turn_s: float
) -> None:
    """At its next turn, however early that comes."""
    monkeypatch.setattr(shortage, "_BETWEEN_S", (turn_s, turn_s))
    refusing_parameters(stubs)
    stubs("ec2").add_client_error("run_instances", *ICE, http_status_code=500)
    parameter(stubs, "partitions/train", {"instance_types": TYPES, "subnet_id": "subnet-1"})
    stubs("ec2").add_client_error("run_instances", *ICE, http_status_code=500)
    stubs("ec2").add_response("run_instances", {"Instances": [instance(1), instance(2)]}, run_instances("lt-2", "1", 2))
    parameter(stubs, "network", {"hosted_zone_id": "Z1"})
    expect_records(stubs, "UPSERT", {"train-1.c.internal": "10.0.0.1", "train-2.c.internal": "10.0.0.2"})
    expect_names(stubs, "0:train-[1-2]", 1, 2)
    resumed(GROUP, waiting.folder, waiting.sleep)
