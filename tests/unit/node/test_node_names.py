"""The tag of the nodes' names: what the head node writes, each instance reads as its own name."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from gpucluster_node import names, slurm

from gpucluster.cluster import tagged_instances


def written(nodes: Sequence[str], indexes: Sequence[int] = ()) -> list[str]:
    """The values, after a check that each instance reads its own name, on the node and on the user's machine."""
    launched = list(zip(indexes or range(len(nodes)), nodes, strict=True))
    found = list(names.chunks(launched))
    values = [value for value, named in found for _ in named]
    assert [node for _, named in found for node in named] == list(nodes)
    assert [names.node_of(value, index) for value, (index, _) in zip(values, launched, strict=True)] == list(nodes)
    shown = [
        {"AmiLaunchIndex": index, "Tags": [{"Key": names.TAG, "Value": value}]}
        for value, (index, _) in zip(values, launched, strict=True)
    ]
    assert [tagged_instances.node_of(each) for each in shown] == list(nodes)
    assert all(len(value) <= 256 for value, _ in found) and all(len(named) <= 500 for _, named in found)
    return [value for value, _ in found]


def test_a_thousand_nodes_are_two_values() -> None:
    assert written(slurm.expand("train-[1-1000]")) == ["0:train-[1-500]", "500:train-[501-1000]"]


def test_the_value_of_one_node_is_its_name() -> None:
    """For any index that the metadata service may tell."""
    assert written(["train-7"]) == ["train-7"]
    assert names.node_of("train-7", 3) == "train-7"


def test_nodes_may_have_gaps_and_any_order() -> None:
    assert written(slurm.expand("big-gpu-[3,5-7,2]")) == ["0:big-gpu-[3,5-7,2]"]


def test_a_node_that_is_left_out_ends_a_value() -> None:
    """One whose address could not be written is terminated."""
    assert written(["a-1", "a-2", "a-4", "a-5"], [0, 1, 3, 4]) == ["0:a-[1-2]", "3:a-[4-5]"]


def test_nodes_of_two_partitions_share_no_value() -> None:
    assert written(["a-1", "a-2", "b-3"]) == ["0:a-[1-2]", "b-3"]


def test_repeated_indexes_make_a_value_for_each_instance() -> None:
    """EC2 has separate requests for the spot instances of a call, and its documentation tells no index for them."""
    assert written(["a-1", "a-2", "a-3"], [0, 0, 0]) == ["a-1", "a-2", "a-3"]


def test_a_name_of_another_form_stands_alone() -> None:
    assert written(["a-01", "a-2", "login", "a-3"]) == ["a-01", "a-2", "login", "a-3"]


def test_a_sparse_list_is_cut_at_256_characters() -> None:
    values = written([f"train-{number}" for number in range(1001, 2001, 2)])
    assert len(values) <= 12
    assert sum(len(value) > 200 for value in values) >= len(values) - 2


@pytest.mark.parametrize("seed", range(40))
def test_every_launched_node_gets_exactly_its_own_name(seed: int) -> None:
    """Whatever nodes Slurm wants, and whatever indexes EC2 returns."""
    chance = random.Random(seed)
    pool = [f"{chance.choice(['train', 'p5-big', 'a'])}-{number}" for number in range(1, chance.choice([9, 2000]))]
    nodes = chance.sample(pool, chance.randint(1, len(pool)))
    if chance.random() < 0.7:
        nodes.sort(key=pool.index)
    indexes = sorted(chance.choices(range(len(nodes)), k=len(nodes))) if chance.random() < 0.3 else []
    written(nodes, indexes)


@pytest.mark.parametrize(
    ("value", "index"),
    [
        ("", 0),
        ("0:", 0),
        ("0:train-[]", 0),
        ("0:train-[1-4]", 4),
        ("3:train-[1-4]", 2),
        ("0:train-[4-1]", 0),
        ("x:train-[1-4]", 0),
        ("0:train-[1-4", 0),
        ("0:train-[1--4]", 0),
        ("0:train-[1-4],ps-[1]", 5),
        ("-1:train-[1-4]", 0),
    ],
)
def test_a_wrong_value_is_no_name(value: str, index: int) -> None:
    assert names.node_of(value, index) is None
    shown = {"AmiLaunchIndex": index, "Tags": [{"Key": names.TAG, "Value": value}]}
    assert tagged_instances.node_of(shown) is None


def test_a_huge_range_costs_nothing() -> None:
    assert names.node_of("0:train-[1-99999999999]", 5) == "train-6"
