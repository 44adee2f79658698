"""Slurm's tree of switches from the nodes' places, and when slurmctld gets it."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from pathlib import Path

import pytest
from gpucluster_node import fleet, slurm
from gpucluster_node.power import switches, topology

BIG = fleet.Partition("big", 2, 4, "on-demand", topology=True)
CLUSTER = fleet.Fleet("c", "c.internal", "/c/", (BIG, fleet.Partition("cpu", 0, 2, "on-demand")))
PLACES = {"big-1": ("nn-0", "nn-1", "nn-2"), "big-2": ("nn-0", "nn-1", "nn-3"), "big-3": ("nn-0", "nn-1", "nn-2")}
HEADER = "# GpuCluster: big-[1-4],cpu-[1-2]\n"
FLAT = HEADER + "SwitchName=cluster Nodes=big-[1-4],cpu-[1-2]\n"
TREE = """\
SwitchName=nn-2 Nodes=big-[1,3]
SwitchName=nn-3 Nodes=big-[2]
SwitchName=unknown Nodes=big-[4],cpu-[1-2]
SwitchName=cluster Switches=nn-0,unknown
SwitchName=nn-0 Switches=nn-1
SwitchName=nn-1 Switches=nn-2,nn-3
"""


def test_nodes_without_a_place_share_a_switch_below_the_root() -> None:
    assert switches.tree(CLUSTER, PLACES) == TREE


def test_without_places_all_nodes_are_on_one_switch() -> None:
    nodes = "SwitchName=unknown Nodes=big-[1-4],cpu-[1-2]\n"
    assert switches.tree(CLUSTER, {}) == nodes + "SwitchName=cluster Switches=unknown\n"


def check(text: str, everyone: set[str]) -> None:
    """As slurmctld does, which ends at a file that is no tree: topology_tree.c: _validate_switches."""
    rows = re.findall(r"^SwitchName=(\S+) (Nodes|Switches)=(\S+)$", text, re.MULTILINE)
    assert len(rows) == len(text.splitlines()) and len({name for name, _, _ in rows}) == len(rows)
    children = {name: each.split(",") for name, kind, each in rows if kind == "Switches"}
    nodes = [node for _, kind, each in rows if kind == "Nodes" for node in slurm.expand(each)]
    assert sorted(nodes) == sorted(everyone), "each node on one switch"
    reached, found = ["cluster"], list[str]()
    while reached:
        switch = reached.pop()
        found.append(switch)
        reached += children.get(switch, [])
    assert sorted(found) == sorted(name for name, _, _ in rows), "each switch is below the root, and once"


def test_whatever_ec2_tells_the_file_is_a_tree() -> None:
    chance = random.Random(7)
    big = replace(BIG, max_nodes=30)
    cluster = replace(CLUSTER, partitions=(big, CLUSTER.partitions[1]))
    everyone = {f"big-{n}" for n in range(1, 31)} | {"cpu-1", "cpu-2"}
    for _ in range(500):
        names = [f"nn-{n}" for n in range(chance.randrange(1, 12))]
        depth = chance.randrange(1, 5)
        places = {f"big-{n}": tuple(chance.choices(names, k=depth)) for n in range(1, chance.randrange(2, 31))}
        check(switches.tree(cluster, places), everyone)


def test_a_thousand_nodes_with_a_switch_each_get_the_layers_above_alone() -> None:
    cluster = replace(CLUSTER, partitions=(replace(BIG, max_nodes=1000),))
    places = {f"big-{n}": ("nn-0", f"nn-m{n % 50}", f"nn-l{n}") for n in range(1, 1001)}
    text = switches.tree(cluster, places)
    check(text, {f"big-{n}" for n in range(1, 1001)})
    assert len(text.splitlines()) == 52 and "nn-l" not in text


class World:
    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.file, self.now, self.reconfigured, self.starting = folder / "topology.conf", 0.0, 0, ""
        self.error: slurm.SlurmError | None = None
        self.places = dict(PLACES)
        self.states = frozenset({"IDLE", "CLOUD"})
        self.file.write_text(FLAT)
        self.switches = switches.Switches(self.file, lambda: self.now)
        monkeypatch.setattr(slurm, "call", self._slurm)

    def _slurm(self, argv: list[str]) -> str:
        if argv[0] == "squeue":
            return self.starting
        assert argv == ["scontrol", "reconfigure"]
        self.reconfigured += 1
        if self.error:
            raise self.error
        return ""

    def look(self, seconds: float = 5) -> str:
        self.now += seconds
        extra = {name: "/".join(place) for name, place in self.places.items()}
        nodes = [slurm.Node(f"big-{n}", self.states, extra=extra.get(f"big-{n}", "")) for n in range(1, 5)]
        nodes.append(slurm.Node("cpu-1", frozenset({"POWERING_UP"})))
        self.switches.look(CLUSTER, nodes)
        return self.file.read_text()


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(tmp_path, monkeypatch)


def test_slurmctld_gets_the_tree_once(world: World) -> None:
    assert world.look() == HEADER + TREE
    for _ in range(1000):
        world.look()
    assert world.reconfigured == 1


def test_nothing_is_changed_while_a_job_or_a_node_starts(world: World) -> None:
    world.starting = "RUNNING 1:00\nCONFIGURING 3:20\n"
    assert world.look() == FLAT
    world.starting = "RUNNING 1-00:00:01\nRUNNING 0:59\n"
    assert world.look() == FLAT
    world.starting, world.states = "RUNNING 1:00\nPENDING 0:00\n", frozenset({"MIXED", "CLOUD", "POWERING_UP"})
    assert world.look() == FLAT and world.reconfigured == 0
    world.states = frozenset({"MIXED", "CLOUD"})
    assert world.look() == HEADER + TREE


def test_another_node_is_added_after_ten_minutes_and_a_lost_one_changes_nothing(world: World) -> None:
    world.look()
    del world.places["big-2"]
    world.look(3600)
    assert world.reconfigured == 1
    world.places["big-4"] = world.places["big-1"]
    assert "big-[1,3-4]" in world.look()
    world.places["big-2"] = world.places["big-1"]
    world.look()
    assert world.reconfigured == 2
    assert "big-[1-4]" in world.look(600)


def test_a_file_that_slurmctld_refuses_is_taken_back(world: World) -> None:
    world.error = slurm.SlurmError("slurm_reconfigure error: Unspecified error")
    assert world.look() == FLAT
    world.look()
    assert world.reconfigured == 1
    world.error = None
    assert world.look(600) == HEADER + TREE


def test_a_file_that_slurmctld_may_have_read_stays_and_slurmctld_is_asked_again(world: World) -> None:
    world.error = slurm.UnansweredError("`scontrol reconfigure` did not answer within 30 s")
    assert world.look() == HEADER + TREE
    world.look()
    assert world.reconfigured == 1
    world.error = None
    assert world.look(600) == HEADER + TREE
    assert world.reconfigured == 2
    world.look(600)
    assert world.reconfigured == 2


def test_a_cluster_without_the_file_has_no_tree(world: World) -> None:
    world.file.unlink()
    world.switches.look(CLUSTER, [slurm.Node("big-1", world.states, extra="nn-0/nn-1")])
    assert world.reconfigured == 0 and not world.file.exists()


@pytest.mark.parametrize("change", [{"min_nodes": 1}, {"topology": False}])
def test_places_of_other_partitions_do_not_count(world: World, change: dict[str, int]) -> None:
    cluster = replace(CLUSTER, partitions=(replace(BIG, **change),))
    world.switches.look(cluster, [slurm.Node("big-1", world.states, extra="nn-0/nn-1")])
    assert world.reconfigured == 0


def test_ranges_are_slurms() -> None:
    names = ["a-b-10", "a-b-2", "a-b-1", "c-7", "a-b-3"]
    assert switches.ranges(names) == "a-b-[1-3,10],c-[7]"
    assert sorted(slurm.expand(switches.ranges(names))) == sorted(names)
    assert topology.noted(slurm.Node("a", frozenset(), extra="nn-1/nn-2")) == ("nn-1", "nn-2")
