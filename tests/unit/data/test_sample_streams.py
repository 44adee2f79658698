"""What ranks and their loaders' workers read out of shards that `gpucluster data shard` has packed."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpucluster.data.records import FORMATS, Record
from gpucluster_train import channels, streams
from gpucluster_train.channels import Channel, ChannelError
from gpucluster_train.world import World

SAMPLES, SHARDS = 2000, 20


def packed(folder: Path, counts: Sequence[int], listed: Sequence[int | None], nodes: int = 1) -> Path:
    """Shards with so many samples, and a channel's index that says so many."""
    made, number = [], 0
    folder.mkdir(exist_ok=True)
    for shard, (count, said) in enumerate(zip(counts, listed, strict=True)):
        path = folder / f"train-{shard:06d}.tar"
        records = (Record(each, "a.jpg", each % 7, b"%d" % each) for each in range(number, number + count))
        path.write_bytes(b"".join(map(FORMATS["tar"].encode, records)) + FORMATS["tar"].end)
        made.append({"name": path.name, "size_bytes": path.stat().st_size, "samples": said})
        number += count
    asked = {"shard": "by-node", "mode": "mount", "unpack": "none", "seed": "0", "root": str(folder)}
    path = folder / "index.json"
    path.write_text(json.dumps({**asked, "nodes": [f"n{each}" for each in range(nodes)], "shards": made}))
    return path


@pytest.fixture(scope="module")
def train(tmp_path_factory: pytest.TempPathFactory) -> Path:
    each = [SAMPLES // SHARDS] * SHARDS
    return packed(tmp_path_factory.mktemp("shards"), each, each, nodes=2)


def rank(path: Path, number: int = 0, size: int = 4, nodes: int = 2) -> Channel:
    local = size // nodes
    return channels.read(path, World(number, size, number % local), f"n{number // local}")


def numbers(channel: Channel, epoch: int = 0, workers: int = 1, **how: object) -> list[int]:
    """One worker after another."""
    return [
        int(sample["jpg"])
        for worker in range(workers)
        for sample in streams.samples(channel, epoch, worker=worker, workers=workers, **how)  # type: ignore[arg-type]
    ]


@pytest.mark.parametrize("workers", [1, 3])
def test_the_ranks_of_a_node_share_its_samples(train: Path, workers: int) -> None:
    for epoch in range(2):
        read = [numbers(rank(train, each), epoch, workers, shuffle=4096, exact=False) for each in range(4)]
        assert sorted(number for own in read for number in own) == list(range(SAMPLES))
        assert [len(own) for own in read] == [rank(train).samples_each(epoch)] * 4 == [500] * 4


def test_neighbours_of_an_epoch_are_not_neighbours_in_the_next(train: Path) -> None:
    for workers in (1, 4):
        before = numbers(rank(train), 0, workers, shuffle=4096)
        after = numbers(rank(train), 1, workers, shuffle=4096)
        pairs = set(zip(before, before[1:], strict=False))
        again = [pair for pair in zip(after, after[1:], strict=False) if pair in pairs or pair[::-1] in pairs]
        assert len(again) < 0.05 * len(after)
        in_order = numbers(rank(train), 1, workers)
        assert len([1 for one, two in zip(in_order, in_order[1:], strict=False) if two == one + 1]) > 0.9 * len(after)


def test_the_same_run_reads_the_same_order_and_another_seed_another(train: Path) -> None:
    first = numbers(rank(train), 3, 2, shuffle=64)
    assert numbers(rank(train), 3, 2, shuffle=64) == first
    assert sorted(numbers(rank(train), 3, 2, shuffle=64, seed=1)) == sorted(first)
    assert numbers(rank(train), 3, 2, shuffle=64, seed=1) != first


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 300), st.integers(0, 400), st.integers())
def test_a_shuffle_loses_nothing_and_holds_few(count: int, size: int, seed: int) -> None:
    taken = 0

    def items() -> object:
        nonlocal taken
        for each in range(count):
            taken += 1
            yield each

    given = []
    for each in streams.shuffled(items(), size, Random(seed)):  # type: ignore[arg-type,var-annotated]
        given.append(each)
        assert taken - len(given) <= max(0, size)
    assert sorted(given) == list(range(count))
    assert size > 1 or given == list(range(count))


@pytest.mark.parametrize(("has", "said"), [(9, "fewer"), (3, "fewer"), (11, "more")])
@pytest.mark.parametrize("number", [0, 1])
def test_a_shard_with_other_samples_than_listed_is_named(tmp_path: Path, has: int, said: str, number: int) -> None:
    path = packed(tmp_path / "s", [has], [10])
    read = rank(path, number, 2, nodes=1)
    if number == 0 and has > 5:  # the first of two ranks does not come to the end of the shard
        assert len(numbers(read)) == 5
        return
    with pytest.raises(ChannelError, match=rf"train-000000.tar: has {said} samples than the 10 of its manifest.json"):
        numbers(read)


def test_a_shuffle_that_fills_the_nodes_memory_is_refused(train: Path) -> None:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    shards = [{"name": "train-000000.tar", "size_bytes": memory * 16, "samples": 100 * 4096}]
    path = train.parent / "large.json"
    path.write_text(json.dumps({**json.loads(train.read_text()), "shards": shards}))
    said = (
        "2 ranks x 2 workers of this node would keep 4096 samples each to draw from, .* GB, and it has .* GB of memory"
    )
    with pytest.raises(ChannelError, match=said):
        streams.samples(rank(path), shuffle=4096, workers=2)
    for fits in ({"shuffle": 4096, "workers": 1}, {"shuffle": 2048, "workers": 2}, {"workers": 8}):
        streams.samples(rank(path), **fits)  # type: ignore[arg-type]


def test_an_empty_shard_has_no_samples_for_anybody(tmp_path: Path) -> None:
    path = packed(tmp_path / "s", [0, 4], [0, 4])
    assert sorted(numbers(rank(path, 0, 2, 1)) + numbers(rank(path, 1, 2, 1))) == [0, 1, 2, 3]


def test_without_a_manifest_every_sample_is_read_once(tmp_path: Path) -> None:
    path = packed(tmp_path / "s", [5, 6, 7], [None, None, None])
    for size in (2, 4):  # as many whole shards as ranks, or fewer
        read = [number for each in range(size) for number in numbers(rank(path, each, size, 1), workers=2, shuffle=8)]
        assert sorted(read) == list(range(18))
