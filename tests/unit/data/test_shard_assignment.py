"""Assignment of shards to ranks: disjoint, complete, balanced, in a new order each epoch, the same after a restart."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpucluster_train.assignment import Piece, Shard, cut, parts, samples_of, shuffled
from gpucluster_train.channels import Channel, ChannelError
from gpucluster_train.world import World

COUNTS = st.integers(1, 500)
SIZES = st.integers(1, 64)
SAMPLES = st.one_of(
    st.just([None]), st.integers(0, 10_000).map(lambda number: [number]), st.lists(st.integers(0, 10_000), min_size=1)
)
"""Numbers of samples: unknown, equal for all shards, or any."""


def shards_of(count: int, samples: list[int | None]) -> list[Shard]:
    return [Shard(f"train-{number:06d}.tar", 1, samples[number % len(samples)]) for number in range(count)]


@settings(max_examples=200, deadline=None)
@given(COUNTS, SIZES, SAMPLES, st.integers(0, 1000), st.integers(0, 100))
def test_parts_are_disjoint_complete_and_balanced(count, size, samples, seed, epoch):
    shards = shards_of(count, samples)
    found = parts(shards, size, seed=str(seed), epoch=epoch)
    assert len(found) == size
    assert Counter(shard for part in found for shard in part) == Counter(shards)
    if count >= size:
        assert all(found)
    if samples == [None]:
        lengths = [len(part) for part in found]
        assert max(lengths) - min(lengths) <= 1
    else:
        totals = [samples_of(part) for part in found]
        assert max(totals) - min(totals) <= max(shard.samples for shard in shards)
    if len(set(samples)) == 1:
        lengths = [len(part) for part in found]
        assert max(lengths) - min(lengths) <= 1


@settings(max_examples=100, deadline=None)
@given(COUNTS, SIZES, SAMPLES, st.integers(0, 1000), st.randoms())
def test_they_are_the_same_after_a_restart_however_the_list_was_made(count, size, samples, seed, chance):
    shards = shards_of(count, samples)
    before = [parts(shards, size, seed=str(seed), epoch=epoch) for epoch in range(3)]
    chance.shuffle(shards)
    assert [parts(shards, size, seed=str(seed), epoch=epoch) for epoch in range(3)] == before


def channel(shards: list[Shard], rank: int, size: int, **given) -> Channel:
    nodes = tuple(f"train-{number}" for number in range(1, (size + 7) // 8 + 1))
    fields = {"shard": "by-rank", "mode": "mount", "unpack": "none", "node": nodes[rank // 8]} | given
    world = World(rank, size, rank % 8)
    return Channel("train", "/fsx/train", seed="7", nodes=nodes, every=tuple(shards), world=world, **fields)


@settings(max_examples=50, deadline=None)
@given(COUNTS, SIZES, SAMPLES, st.sampled_from(["by-rank", "by-node", "none"]), st.sampled_from(["mount", "copy"]))
def test_ranks_together_read_the_whole_data_set(count, size, samples, shard, mode):
    shards = shards_of(count, samples)
    every = sorted(f"/fsx/train/{each.name}" for each in shards)
    for epoch in range(3):
        read = [channel(shards, rank, size, shard=shard, mode=mode).shards(epoch) for rank in range(size)]
        if shard == "by-rank":
            assert sorted(place for places in read for place in places) == every
        elif shard == "none":
            assert all(sorted(places) == every for places in read)
        else:
            nodes = [channel(shards, rank, size).node for rank in range(size)]
            by_node = {node: read[rank] for rank, node in enumerate(nodes)}
            assert all(read[rank] == by_node[node] for rank, node in enumerate(nodes))
            assert sorted(place for places in by_node.values() for place in places) == every


def test_epochs_have_different_orders_and_other_shards_for_a_rank():
    shards = shards_of(64, [None])
    orders = [[shard.name for shard in shuffled(shards, "0", epoch)] for epoch in range(5)]
    assert len({tuple(order) for order in orders}) == 5
    ranks = [frozenset(parts(shards, 8, seed="0", epoch=epoch)[3]) for epoch in range(5)]
    assert len(set(ranks)) == 5
    assert shuffled(shards, "0", 0) != shuffled(shards, "1", 0)


def test_the_order_is_fixed_for_all_releases():
    """A change would give other shards to every job that continues from a checkpoint."""
    shards = shards_of(6, [None])
    assert [shard.name[10:12] for shard in shuffled(shards, "0", 0)] == ["02", "01", "00", "04", "03", "05"]


def test_a_node_that_copied_its_part_keeps_it():
    shards = shards_of(100, [5])
    kept = [channel(shards, 0, 16, shard="by-node", mode="copy").shards(epoch) for epoch in range(4)]
    assert len({frozenset(each) for each in kept}) == 1
    assert len({tuple(each) for each in kept}) == 4
    moved = [channel(shards, 0, 16, shard="by-node").shards(epoch) for epoch in range(4)]
    assert len({frozenset(each) for each in moved}) == 4


@pytest.mark.parametrize(
    ("shard", "samples", "each"), [("by-rank", 10, 20), ("by-node", 10, 6), ("none", 10, 100), ("by-rank", None, None)]
)
def test_how_many_samples_every_rank_has_at_least(shard, samples, each):
    """Ten shards for four ranks: two have two of them, two have three. Two nodes have five each, for eight ranks."""
    size = 4 if shard == "by-rank" else 16
    assert channel(shards_of(10, [samples]), 0, size, shard=shard).samples_each(0) == each


def test_an_elastic_job_asks_for_the_size_that_it_has_now():
    shards = shards_of(12, [None])
    before = channel(shards, 0, 4)
    assert len(before.shards(0)) == 3
    assert [len(before.shards(0, rank=rank, size=3)) for rank in range(3)] == [4, 4, 4]
    with pytest.raises(ValueError, match="ranks of a world of 2 are 0 to 1, got 2"):
        before.shards(0, rank=2, size=2)


def test_the_package_needs_nothing_but_python():
    program = "import sys, gpucluster_train.channels, gpucluster_train.streams; print('boto3' in sys.modules)"
    done = subprocess.run([sys.executable, "-S", "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("False\n", "")


NODES = st.integers(1, 4)
LOCAL = st.integers(1, 4)


def ranks_of(shards: list[Shard], nodes: int, local: int, **given) -> list[Channel]:
    """The same channel as each rank has it."""
    names = tuple(f"train-{number + 1}" for number in range(nodes))
    fields = {"shard": "by-rank", "mode": "mount", "unpack": "none"} | given
    return [
        Channel(
            "train", "/fsx/train", seed="7", nodes=names, every=tuple(shards),
            world=World(rank, nodes * local, rank % local), node=names[rank // local], **fields,
        )
        for rank in range(nodes * local)
    ]  # fmt: skip


def names_in(pieces: list[Piece], held: int = 1000) -> list[tuple[str, int]]:
    """Every sample; `held`: how many a shard has whose number is unknown."""
    return [
        (piece.shard.name, number)
        for piece in pieces
        for number in range(piece.first, held if piece.end is None else piece.end, piece.step)
    ]


@settings(max_examples=150, deadline=None)
@given(
    st.integers(1, 40),
    st.lists(st.integers(0, 60), min_size=1),
    NODES,
    LOCAL,
    st.integers(1, 5),
    st.sampled_from(["by-rank", "by-node"]),
    st.sampled_from(["mount", "copy"]),
)
def test_every_sample_is_read_once_or_all_ranks_read_equally_many(count, samples, nodes, local, workers, shard, mode):
    shards = shards_of(count, samples)
    ranks = ranks_of(shards, nodes, local, shard=shard, mode=mode)
    every = sorted((each.name, number) for each in shards for number in range(each.samples))
    for epoch in range(2):
        exact = [names_in(rank.pieces(epoch, exact=True)) for rank in ranks]
        assert sorted(name for own in exact for name in own) == every
        each = ranks[0].samples_each(epoch)
        for rank, whole in zip(ranks, exact, strict=True):
            equal = rank.pieces(epoch)
            assert names_in(equal) == whole[:each] and len(whole) >= each
            of_workers = [names_in(cut(equal, worker, workers)) for worker in range(workers)]
            assert [name for own in of_workers for name in own] == names_in(equal)
            assert max(map(len, of_workers)) - min(map(len, of_workers)) <= 1
        if shard == "by-node":
            sizes = [len(own) for own in exact]
            for node in range(nodes):
                on_node = sizes[node * local : (node + 1) * local]
                assert max(on_node) - min(on_node) <= 1


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 20), NODES, LOCAL, st.integers(1, 5))
def test_shards_of_unknown_size_are_read_once_too(count, nodes, local, workers):
    shards = shards_of(max(count, nodes), [None])
    ranks = ranks_of(shards, nodes, local, shard="by-node")
    read = [
        name
        for rank in ranks
        for worker in range(workers)
        for name in names_in(cut(rank.pieces(0), worker, workers), held=37)
    ]
    assert sorted(read) == sorted((each.name, number) for each in shards for number in range(37))


def test_a_validation_set_counts_each_picture_once_on_64_ranks():
    """ImageNet's, in 50 shards: too few for 64 ranks, but not for 8 nodes."""
    shards = shards_of(50, [1000])
    ranks = ranks_of(shards, 8, 8, shard="by-node")
    read = [name for rank in ranks for name in names_in(rank.pieces(0, exact=True))]
    assert len(read) == len(set(read)) == 50_000


def test_a_rank_outside_its_node_gets_no_data():
    odd = replace(ranks_of(shards_of(4, [5]), 2, 2, shard="by-node")[0], world=World(3, 4, 3))
    with pytest.raises(ChannelError, match="channel train: this is rank 3 of its node, but a node has 2 ranks"):
        odd.pieces(0)
