"""What Slurm and the job experience if EC2 ends an instance: the real programs, on virtual time."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import random_world
from gpucluster_node import ec2, fleet, retry, slurm
from gpucluster_node.power import last_launches as records
from gpucluster_node.power import suspend
from random_world import BOOT_S, SIZE, Machine, World, error, install

KEY = "Client.InternalError: Client error on launch"  # aws/karpenter-provider-aws#1407
SPOT = "Server.SpotInstanceTermination: Instance terminated by EC2"
ENDING_S = 120.0
"""SuspendTimeout on AWS."""
DECIDED_S = 15.0
"""Until the head node has seen an end, and has decided."""


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[World]:
    monkeypatch.setattr(random_world, "ENDING_S", ENDING_S)
    made = World(tmp_path, lag_s=0.0, trouble=[])
    install(made, monkeypatch)
    made.advance(120)
    yield made
    assert made.wrong == []


def launched(world: World, node: str, limit_s: float = 60.0) -> Machine:
    """The node's next instance, as soon as it is named."""
    before, until = len(world.machines), world.now + limit_s
    while world.now < until:
        world.advance(1)
        if found := [each for each in world.machines[before:] if each.node == node]:
            return found[0]
    raise AssertionError(f"{node} is not launched within {limit_s} s")


def end(world: World, machine: Machine, why: str) -> None:
    machine.ended, machine.ended_by = world.now, why


def test_a_boot_that_ec2_ends_at_once_waits_and_names_the_cause(world: World) -> None:
    """It would fail again: its key may not be used, or a limit of volumes is reached."""
    world.slurm.submit(1, 2)
    end(world, launched(world, "train-2"), KEY)
    world.advance(DECIDED_S)
    node = world.slurm.nodes["train-2"]
    assert (node.base, node.reason) == ("DOWN", f"the EC2 instance of this node is gone: {KEY}; next try in 120 s")
    world.advance(100)
    assert node.base == "DOWN"


def test_a_job_whose_instance_is_lost_while_it_boots_begins_again_at_once(world: World) -> None:
    (job,) = world.slurm.submit(1, 2)
    end(world, launched(world, "train-2"), SPOT)
    world.advance(DECIDED_S)
    (down,) = world.slurm.downs
    assert down.reason == f"the EC2 instance of this node is gone: {SPOT}; next try at once"
    world.advance(BOOT_S + 10)
    assert job.began is not None


def test_a_node_that_boots_again_is_not_judged_by_its_last_instance(world: World) -> None:
    """EC2 lists it for an hour."""
    (job,) = world.slurm.submit(1, SIZE)
    end(world, launched(world, "train-2"), SPOT)
    world.advance(DECIDED_S)
    launched(world, "train-2", 120)
    world.advance(BOOT_S + 10)
    assert len(world.slurm.downs) == 1 and job.began is not None


def begins(world: World, limit_s: float) -> float:
    """Seconds until the job runs on all of its nodes."""
    (job,), since = world.slurm.jobs, world.now
    while job.ends is None:
        assert world.now - since < limit_s, [f"{each.name} {each.state}" for each in world.slurm.nodes.values()]
        world.advance(1)
    return world.now - since


def test_a_job_that_needs_every_node_gets_a_lost_one_back_before_slurms_timeout(world: World) -> None:
    world.slurm.submit(1, SIZE, runs_s=3600)
    begins(world, 60)
    end(world, next(each for each in world.machines if each.node == "train-2"), SPOT)
    world.advance(DECIDED_S)
    assert begins(world, ENDING_S) < BOOT_S + 30


@pytest.mark.parametrize("drained", [False, True])
def test_a_node_that_is_drained_while_it_ends_stays_drained(world: World, drained: bool) -> None:
    """Slurm's `resume`, which ends the power-down, would end the drain too."""
    world.slurm.submit(1, SIZE, runs_s=1)
    begins(world, 60)
    world.advance(10)
    world.slurm.run(["scontrol", "update", "nodename=train-2", "state=power_down_force"])
    world.advance(5)
    node = world.slurm.nodes["train-2"]
    assert "POWERING_DOWN" in node.flags
    if drained:
        world.slurm.run(["scontrol", "update", "nodename=train-2", "state=drain", "reason=bad GPU"])
    world.advance(ENDING_S - 20)
    assert node.flags == ({"CLOUD", "DRAIN", "POWERING_DOWN"} if drained else {"CLOUD", "POWERED_DOWN"})
    world.advance(30)
    assert node.flags == {"CLOUD", "POWERED_DOWN"} | ({"DRAIN"} if drained else set())


def test_a_round_asks_ec2_for_ended_instances_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three steps of it want them: which instances have ended, which nodes are free, and why instances have ended."""
    world.slurm.submit(1, SIZE, runs_s=3600)
    begins(world, 60)
    world.slurm.run(["scontrol", "update", "nodename=train-3", "state=power_down_force"])
    world.advance(5)
    listed, rounds = world._listed, list[int]()

    def counted(Filters: list[dict[str, Any]], **given: Any) -> list[dict[str, Any]]:
        states = next(each["Values"] for each in Filters if each["Name"] == "instance-state-name")
        rounds[-1] += "terminated" in states
        return listed(Filters, **given)

    monkeypatch.setattr(world, "_listed", counted)
    end(world, next(each for each in world.machines if each.node == "train-2"), SPOT)
    rounds.append(0)
    (down,) = world.rounds.actions()
    assert (down.name, SPOT in down.reason, rounds) == ("train-2", True, [1])


def test_a_node_that_is_being_launched_is_not_looked_for_among_ended_instances(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """EC2's answer is older than its launch. An answer about all ended ones may have thousands."""
    world.slurm.submit(1, SIZE)
    record, describe = world.book.open(["train-2", "train-3"]), ec2.describe
    while not all("POWERING_UP" in world.slurm.nodes[name].flags for name in record.mine):
        world.advance(1)

    def described(client: object, cluster: fleet.Fleet, **states: tuple[str, ...]) -> list[ec2.Instance]:
        return pytest.fail("asked") if states else describe(client, cluster)

    monkeypatch.setattr(ec2, "describe", described)
    now = world.wall().replace(tzinfo=UTC)
    records.write({name: ec2.Instance(name, "pending", "10.0.0.9", now, name, None) for name in record.mine})
    slurm.set_addresses(dict.fromkeys(record.mine, "10.0.0.9"))
    assert [each.name for each in world.rounds.actions() if each.name in record.mine] == []
    record.close()


def test_a_launch_during_a_slow_round_stays_recorded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slurm's answer about the node is old by then."""
    machine = ec2.Instance("i-9", "pending", "10.0.0.9", world.wall().replace(tzinfo=UTC), None, None)
    slow = SimpleNamespace(look=lambda *given: records.write({"train-3": machine}))
    assert "POWERED_DOWN" in world.slurm.nodes["train-3"].flags
    world.rounds.announced = slow
    world.rounds.actions()
    assert records.read(["train-3"])["train-3"].instance == "i-9"
    world.rounds.announced = SimpleNamespace(look=lambda *given: None)
    record = world.book.open(["train-3"])
    world.rounds.actions()
    assert "train-3" in records.read(["train-3"]), "it is being launched"
    record.close()
    world.rounds.actions()
    assert records.read(["train-3"]) == {}, "it is of an earlier life"


def test_a_refused_launch_is_tried_again_after_the_time_in_its_reason(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch, refused = world.run_instances, list[float]()

    def refuse(**given: Any) -> dict[str, Any]:
        if not refused:
            refused.append(world.now)
            raise error("RunInstances", "UnauthorizedOperation", 403)
        return launch(**given)

    monkeypatch.setattr(world, "run_instances", refuse)
    world.slurm.submit(1, SIZE)
    assert begins(world, 600) < retry.LAUNCH_REFUSED_S + BOOT_S + 40


def test_slurms_timeout_counts_if_suspend_program_has_not_ended(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.slurm.submit(1, SIZE, runs_s=3600)
    begins(world, 60)
    monkeypatch.setattr(suspend, "suspend", lambda *given: None)
    end(world, next(each for each in world.machines if each.node == "train-2"), SPOT)
    world.advance(DECIDED_S)
    assert begins(world, 600) > ENDING_S
