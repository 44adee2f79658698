"""Whole shards for each rank: disjoint, together complete, and as many samples as every rank has."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpucluster_train.assignment import Shard
from gpucluster_train.channels import Channel, ChannelError
from gpucluster_train.whole_shards import places, samples_each
from gpucluster_train.world import World


def channel(samples: list[int | None], nodes: int, on_a_node: int, shard: str, mode: str) -> list[Channel]:
    """As each rank sees it."""
    every = tuple(Shard(f"{number}.tfrecord", 1, count) for number, count in enumerate(samples))
    names = tuple(f"train-{number}" for number in range(nodes))
    first = Channel("train", "/fsx", shard, mode, "none", "0", names, every)
    size = nodes * on_a_node
    return [
        replace(first, world=World(rank, size, rank % on_a_node), node=names[rank // on_a_node]) for rank in range(size)
    ]


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.integers(0, 50), min_size=1, max_size=60), st.integers(1, 4), st.integers(1, 8),
    st.sampled_from(["by-rank", "by-node", "none"]), st.sampled_from(["copy", "mount"]), st.integers(1, 4),
)  # fmt: skip
def test_each_sample_is_of_one_rank_and_no_rank_has_fewer_than_said(
    samples: list[int], nodes: int, on_a_node: int, shard: str, mode: str, epochs: int
) -> None:
    ranks = channel([*samples], nodes, on_a_node, shard, mode)
    held = {f"/fsx/{number}.tfrecord": count for number, count in enumerate(samples)}
    counts = []
    for epoch in range(epochs):
        own = [places(rank, epoch) for rank in ranks]
        assert Counter(place for part in own for place in part) == Counter(held.keys())
        counts += [sum(held[place] for place in part) for part in own]
    if min(counts):
        assert {samples_each(rank, epochs) for rank in ranks} == {min(counts)}
    else:
        with pytest.raises(ChannelError, match=f"its {len(samples)} shards are too few for {len(ranks)} ranks"):
            samples_each(ranks[0], epochs)


def test_fifty_shards_for_64_ranks_are_refused_before_the_first_step() -> None:
    with pytest.raises(ChannelError, match="channel train: its 50 shards are too few for 64 ranks: pack the data into"):
        samples_each(channel([100] * 50, 8, 8, "by-node", "copy")[0], 90)


def test_without_a_manifest_nobody_can_say_how_many_steps_an_epoch_has() -> None:
    with pytest.raises(ChannelError, match="/fsx has no manifest.json, .*: pack the data with `gpucluster data shard`"):
        samples_each(channel([None] * 8, 2, 2, "by-rank", "mount")[0], 2)
