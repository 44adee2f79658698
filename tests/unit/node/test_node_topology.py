"""The head node asks EC2 where the nodes are, and writes it to Slurm."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from gpucluster_node import ec2, fleet, slurm
from gpucluster_node.power import topology

RECORD = json.loads((Path(__file__).parents[2] / "data" / "topology" / "answer.json").read_text())
IDS = [each["InstanceId"] for each in RECORD["Instances"]]
UPPER = "nn-1111111111example/nn-2222222222example"
CLUSTER = fleet.Fleet(
    "c",
    "c.internal",
    "/c/",
    (fleet.Partition("train", 0, 64, "on-demand", topology=True), fleet.Partition("cpu", 0, 9, "on-demand")),
)


class World:
    """EC2 as recorded, Slurm's nodes with their Extra, and a clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, nodes: int = 4) -> None:
        self.now, self.asked, self.updates = 0.0, list[list[str]](), list[tuple[list[str], str]]()
        self.answer: Any = RECORD
        self.extra = {f"train-{number}": "" for number in range(1, nodes + 1)} | {"cpu-1": ""}
        ids = [*IDS, *(f"i-{number:08x}" for number in range(nodes))][:nodes]
        self.instances = dict(zip(self.extra, [*ids, "i-0c0c0c0c"], strict=True))
        self.states: dict[str, str] = {}
        self.topology = topology.Topology(lambda: self, lambda: self.now)
        monkeypatch.setattr(slurm, "call", self._scontrol)

    def describe_instance_topology(self, InstanceIds: list[str]) -> Any:  # noqa: N803 - boto3's name
        self.asked.append(InstanceIds)
        if isinstance(self.answer, Exception):
            raise self.answer
        return {"Instances": [each for each in self.answer["Instances"] if each["InstanceId"] in InstanceIds]}

    def _scontrol(self, argv: list[str]) -> str:
        names, extra = argv[2].removeprefix("nodename=").split(","), argv[3].removeprefix("extra=")
        assert argv[:2] == ["scontrol", "update"]
        self.updates.append((names, extra))
        self.extra |= dict.fromkeys(names, extra)
        return ""

    def look(self, seconds: float = 5) -> None:
        self.now += seconds
        nodes = [slurm.Node(name, frozenset({"IDLE"}), extra=extra) for name, extra in self.extra.items()]
        self.topology.look(CLUSTER, nodes, {name: self._instance(name) for name in self.instances})

    def _instance(self, node: str) -> ec2.Instance:
        state = self.states.get(node, "running")
        return ec2.Instance(self.instances[node], state, "10.0.0.1", datetime(2026, 1, 1, tzinfo=UTC), node, None)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def test_nodes_get_the_places_that_ec2_tells_with_a_call_of_slurm_for_each_switch(world: World) -> None:
    world.look()
    assert world.asked == [IDS], "EC2 is not asked about types that it does not describe"
    assert world.updates[0] == (["train-1", "train-2"], f"{UPPER}/nn-4444444444example")
    assert world.extra["train-3"] == f"{UPPER}/nn-5555555555example"
    assert world.extra["train-4"] == "nn-1111111111example/nn-3333333333example/nn-6666666666example"
    world.look()
    assert len(world.asked) == 1 and len(world.updates) == 3, "nothing is asked or written twice"


def test_an_instance_is_asked_about_once_it_runs(world: World) -> None:
    world.states["train-1"] = "pending"
    world.look()
    assert world.asked == [IDS[1:]]
    world.states.clear()
    world.look()
    assert world.asked[1:] == [IDS[:1]] and world.extra["train-1"]


def test_a_place_is_cleared_with_its_instance(world: World) -> None:
    world.look()
    del world.instances["train-1"]
    world.instances["train-4"] = "i-0new"
    world.answer = {"Instances": []}
    world.look()
    assert (world.extra["train-1"], world.extra["train-4"]) == ("", "")
    assert world.extra["train-2"]


def test_after_a_restart_places_stay_until_ec2_answers_again(world: World) -> None:
    world.look()
    before = dict(world.extra)
    del world.instances["train-2"]
    world.topology = topology.Topology(lambda: world, lambda: world.now)
    world.answer = ClientError({"Error": {"Code": "Unavailable"}}, "DescribeInstanceTopology")
    world.look()
    assert world.extra == before | {"train-2": ""}


def test_another_text_in_extra_stays_while_there_is_no_place(world: World) -> None:
    world.extra["train-1"] = "rack=7"
    world.answer = {"Instances": []}
    world.look()
    del world.instances["train-1"]
    world.look()
    assert world.updates == []


@pytest.mark.parametrize("answer", [{}, {"NetworkNodes": None}, {"NetworkNodes": []}, None])
def test_ec2_is_asked_three_times_about_an_instance_without_a_place(world: World, answer: Any) -> None:
    found = [] if answer is None else [{"InstanceId": id_, "InstanceType": "g6e.xlarge", **answer} for id_ in IDS]
    world.answer = {"Instances": found}
    for _ in range(100):
        world.look()
    assert world.asked == [IDS] * 3 and world.updates == []


def test_after_errors_ec2_is_asked_ever_more_rarely(world: World) -> None:
    world.answer = ClientError({"Error": {"Code": "UnauthorizedOperation"}}, "DescribeInstanceTopology")
    for _ in range(24 * 720):
        world.look()
    assert len(world.asked) == 6 + 23, "after 0, 1, 3, 7, 15, 31 minutes and then every hour"
    world.answer = RECORD
    world.look(3600)
    assert world.extra["train-1"]


def test_a_thousand_nodes_take_one_call_in_a_round(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, 64)
    world.answer = {"Instances": [{"InstanceId": id_, "NetworkNodes": ["nn-1"]} for id_ in world.instances.values()]}
    for _ in range(4):
        world.look()
    assert [len(ids) for ids in world.asked] == [20, 20, 20, 4]


def test_an_error_of_slurm_stops_nothing_and_is_repaired(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    scontrol = slurm.call

    def fails(argv: Any) -> str:
        raise slurm.SlurmError("slurmctld does not answer")

    monkeypatch.setattr(slurm, "call", fails)
    world.look()
    monkeypatch.setattr(slurm, "call", scontrol)
    world.look()
    assert all(world.extra[node] for node in world.instances if node != "cpu-1")


def test_extra_is_read_from_slurms_listing() -> None:
    line = (
        "NodeName=train-1 Arch=x86_64 State=IDLE+CLOUD ThreadsPerCore=1 "
        "Reason=failed: Extra=nn-0/nn-0 in a reason [root@2026-01-31T12:00:00] Comment=x Extra=nn-1/nn-2/nn-3 "
    )
    (node,) = slurm.parse_nodes(line)
    assert (node.extra, topology.noted(node)) == ("nn-1/nn-2/nn-3", ("nn-1", "nn-2", "nn-3"))
    assert node.reason.startswith("failed")
    assert topology.noted(slurm.Node("a", frozenset(), extra="rack=7")) == ()
