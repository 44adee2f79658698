"""Slow nodes are found among measured pairs of nodes."""

from __future__ import annotations

from collections import Counter

import pytest

from gpucluster_job.preflight import slow_nodes
from gpucluster_job.preflight.allreduce import repeats, rounds


def measured_pairs(nodes: int, slow: dict[str, float]) -> list[slow_nodes.Pair]:
    """The pairs of nodes whose network has 300 GB/s, or less: a pair is as slow as its slower node."""
    names = [f"train-{number}" for number in range(1, nodes + 1)]
    return [
        slow_nodes.Pair(*pair, min(slow.get(node, 300.0) for node in pair)) for pairs in rounds(names) for pair in pairs
    ]


@pytest.mark.parametrize("count", range(3, 12))
def test_each_node_is_in_two_pairs_and_in_one_of_a_round(count: int) -> None:
    nodes = [f"train-{number}" for number in range(count)]
    found = rounds(nodes)
    assert Counter(node for pairs in found for pair in pairs for node in pair) == dict.fromkeys(nodes, 2)
    assert all(len({node for pair in pairs for node in pair}) == 2 * len(pairs) for pairs in found)
    assert len({frozenset(pair) for pairs in found for pair in pairs}) == count
    assert len(found) == 2 + count % 2


def test_two_nodes_are_one_pair_which_the_whole_job_measures() -> None:
    assert rounds(["train-1", "train-2"]) == rounds(["train-1"]) == []


@pytest.mark.parametrize(
    ("seconds", "times"), [(0.005, 100), (0.05, 10), (0.5, 3), (3.0, 3), (5.0, 2), (11.0, 1), (12.0, 0)]
)
def test_measuring_pairs_takes_half_a_second_each_and_a_hundred_seconds_at_most(seconds: float, times: int) -> None:
    assert repeats(seconds) == times


@pytest.mark.parametrize("nodes", [3, 4, 5, 8, 33])
@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_slow_node_is_named(nodes: int, number: int) -> None:
    (warning,), (line,) = slow_nodes.described(measured_pairs(nodes, {f"train-{number}": 120.0}))
    assert warning.startswith(f"train-{number} (120.0 GB/s with train-")
    assert warning.endswith(
        f"is slower than other nodes: `--sbatch-args=--exclude=train-{number}` leaves it out; the fastest quarter "
        "of the pairs has 300.0 GB/s or more"
    )
    assert line == "pairs of nodes: 120.0 to 300.0 GB/s bus bandwidth at 1 GiB"


@pytest.mark.parametrize(("nodes", "is_named"), [(3, False), (4, False), (5, True)])
def test_of_few_nodes_only_a_much_slower_one_is_named(nodes: int, is_named: bool) -> None:
    warnings, _ = slow_nodes.described(measured_pairs(nodes, {"train-2": 180.0}))
    assert bool(warnings) == is_named


@pytest.mark.parametrize(
    ("slow", "said"),
    [
        ({"train-2": 90.0, "train-6": 120.0}, ["train-2 (90.0 GB/s with train-1, 90.0 GB/s with train-3), train-6 ("]),
        ({"train-2": 9.0, "train-3": 9.0}, ["train-2 (9.0 GB/s with train-1, 9.0 GB/s with train-3), train-3 ("]),
        ({"train-2": 9.0, "train-4": 9.0}, ["train-2 (", "train-3 was measured with slow nodes only; the fastest"]),
    ],
)
def test_several_slow_nodes(slow: dict[str, float], said: list[str]) -> None:
    warnings, _ = slow_nodes.described(measured_pairs(16, slow))
    assert [warning.startswith(text) for warning, text in zip(warnings, said, strict=True)] == [True] * len(said)
    assert f"are slower than other nodes: `--sbatch-args=--exclude={','.join(slow)}` leaves them out" in warnings[0]


def test_two_nodes_that_are_slow_together_are_no_warning() -> None:
    pairs = [
        pair._replace(gb_per_s=90.0 if pair.nodes == ("train-2", "train-3") else 300.0)
        for pair in measured_pairs(4, {})
    ]
    assert slow_nodes.described(pairs) == (
        [],
        [
            "pairs of nodes: 90.0 to 300.0 GB/s bus bandwidth at 1 GiB",
            "train-2 and train-3 are slow together (90.0 GB/s); train-2 has 300.0 GB/s with train-1, train-3 has "
            "300.0 GB/s with train-4",
        ],
    )
