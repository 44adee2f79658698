"""Where a job's nodes are in EC2's network: the order of its ranks, the tree of `status --topology`, and `why`."""

from __future__ import annotations

import random
import stat
from pathlib import Path

import pytest

from gpucluster.following import topology
from gpucluster_job import placement, torchrun

TOP, A, B = "nn-0", "nn-a", "nn-b"
PLACES = {
    "train-1": (TOP, B, "nn-b1"),
    "train-2": (TOP, A, "nn-a1"),
    "train-3": (TOP, B, "nn-b2"),
    "train-4": (TOP, A, "nn-a2"),
    "train-5": (TOP, B, "nn-b1"),
    "train-6": (TOP, A, "nn-a1"),
}


def listing(places: dict[str, tuple[str, ...]], state: str = "ALLOCATED+CLOUD") -> str:
    rows = ((name, f" Extra={'/'.join(place)}" if place else "") for name, place in places.items())
    return "".join(f"NodeName={name} Arch=x86_64 State={state} Weight=1 Partitions=train{at} \n" for name, at in rows)


def test_nodes_of_a_switch_follow_each_other_and_the_first_stays_first() -> None:
    nodes = list(PLACES)
    assert placement.by_switch(nodes, PLACES) == ["train-1", "train-5", "train-3", "train-2", "train-6", "train-4"]


def test_nodes_without_a_place_come_last() -> None:
    places = {name: place for name, place in PLACES.items() if name != "train-2"}
    assert placement.by_switch(list(PLACES), places)[-1] == "train-2"
    unknown_first = {name: place for name, place in PLACES.items() if name != "train-1"}
    assert placement.by_switch(list(PLACES), unknown_first)[0] == "train-1"


def test_every_order_keeps_all_nodes_and_separates_no_switch() -> None:
    chance = random.Random(7)
    for _ in range(200):
        places = {f"n-{i}": (TOP, f"nn-{chance.randrange(3)}") for i in range(12)}
        places = {name: (*place, f"{place[1]}x{chance.randrange(3)}") for name, place in places.items()}
        nodes = sorted(places)
        order = placement.by_switch(nodes, places)
        assert sorted(order) == nodes and order[0] == nodes[0]
        for depth in (2, 3):
            runs = [places[node][:depth] for node in order]
            changes = sum(a != b for a, b in zip(runs, runs[1:], strict=False))
            assert changes == len(set(runs)) - 1


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a scontrol that prints the file `shown`."""
    program = tmp_path / "scontrol"
    program.write_text(f"#!/bin/sh\ncat {tmp_path}/shown\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    return tmp_path


def test_jobs_of_three_nodes_get_an_order(slurm: Path) -> None:
    (slurm / "shown").write_text(listing(PLACES))
    nodes = list(PLACES)
    assert placement.ordered(nodes[:2], "train-[1-2]") == nodes[:2]
    assert placement.ordered(nodes, "train-[1-6]")[:2] == ["train-1", "train-5"]


def test_without_places_the_nodes_keep_slurms_order(slurm: Path) -> None:
    (slurm / "shown").write_text(listing(dict.fromkeys(PLACES, ())))
    assert placement.ordered(list(PLACES), "train-[1-6]") == list(PLACES)


def test_a_slurmctld_that_does_not_answer_costs_the_order_and_not_the_job(
    slurm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (slurm / "scontrol").write_text("#!/bin/sh\nexec sleep 60\n")
    monkeypatch.setattr(placement, "TIMEOUT_S", 0.2)
    assert placement.ordered(list(PLACES), "train-[1-6]") == list(PLACES)


def test_torchrun_numbers_the_nodes_in_our_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUCLUSTER_NODES", "train-1 train-3 train-2")
    monkeypatch.setenv("SLURMD_NODENAME", "train-2")
    assert torchrun.number() == 2


def test_the_tree_has_each_switch_with_its_nodes_and_jobs() -> None:
    lines = list(topology.lines(topology.parse(listing(PLACES)), {"7": ["train-1", "train-5"], "8": ["train-4"]}))
    assert lines == [
        "the nodes in EC2's network:",
        "  nn-0",
        "    nn-b",
        "      nn-b1:",
        "        train-1: job 7",
        "        train-5: job 7",
        "      nn-b2:",
        "        train-3",
        "    nn-a",
        "      nn-a1:",
        "        train-2",
        "        train-6",
        "      nn-a2:",
        "        train-4: job 8",
    ]
    assert "EC2 has not reported any" in "".join(topology.lines({}, {}))


def test_a_node_that_is_off_has_no_place() -> None:
    assert topology.parse(listing(PLACES, "IDLE+CLOUD+POWERED_DOWN")) == {}
    assert topology.parse(listing(PLACES, "IDLE+CLOUD+POWERING_DOWN")) == {}


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        (["train-1", "train-5"], ["its 2 nodes are on one switch of EC2's network"]),
        (
            ["train-1", "train-3"],
            [
                "its 2 nodes are on 2 switches of EC2's network, which meet 1 layer above",
                "the switch nn-b1 has enough nodes of train for the whole job",
            ],
        ),
        (
            ["train-1", "train-2", "train-3"],
            ["its 3 nodes are on 3 switches of EC2's network, which meet 2 layers above"],
        ),
        (["train-1"], []),
        (["train-1", "train-9"], []),
    ],
)
def test_why_tells_on_how_many_switches_a_job_is(nodes: list[str], said: list[str]) -> None:
    assert list(topology.spread(nodes, PLACES, "train")) == said
