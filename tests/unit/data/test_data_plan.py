"""Which sample goes where: nothing is lost, nothing twice, and the same everywhere."""

from __future__ import annotations

import tempfile
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpucluster.data import plan
from gpucluster.data.locations import Folder
from gpucluster.data.plan import Plan
from gpucluster.data.source import Sample
from gpucluster.errors import UsageError


def make(
    samples: list[Sample], shards: int, *, drop: bool = False, seed: int = 0, format: str = "tar"
) -> tuple[Plan, bytes]:
    return plan.make("train", "/src", samples, (), shards=shards, format=format, seed=seed, drop=drop, check=True)


def some(count: int) -> list[Sample]:
    return [Sample(f"train/c{number % 7}/é {number}.jpg", number % 7) for number in range(count)]


def in_shards(made: Plan, text: bytes) -> list[list[Sample]]:
    with tempfile.TemporaryDirectory() as folder:
        plan.store(Folder(folder), made, text)
        return [list(plan.samples_of(Folder(folder), made, number)) for number in range(len(made.counts))]


@settings(deadline=None)  # a busy machine takes longer
@given(st.integers(1, 400), st.integers(1, 60), st.booleans(), st.integers(0, 2**63 - 1))
def test_every_sample_is_in_one_shard_or_named_as_left_out(count: int, shards: int, drop: bool, seed: int) -> None:
    if count < shards:
        with pytest.raises(UsageError, match=f"{count} samples cannot fill {shards} shards"):
            make(some(count), shards, drop=drop)
        return
    made, text = make(some(count), shards, drop=drop, seed=seed)
    found = in_shards(made, text)
    names = [sample.name for shard in found for sample in shard] + list(made.left_out)
    assert sorted(names) == sorted(sample.name for sample in some(count))
    sizes = {len(shard) for shard in found}
    assert max(sizes) - min(sizes) <= (0 if drop else 1)
    assert made.remainder == count % shards == (len(made.left_out) if drop else sum(made.counts) - shards * min(sizes))


def test_the_order_depends_on_names_and_seed_alone() -> None:
    samples = some(200)
    shuffled = samples.copy()
    Random(1).shuffle(shuffled)
    assert plan.shuffled(samples, 3) == plan.shuffled(shuffled, 3) != plan.shuffled(samples, 4)
    # as computed once: a new Python or another machine must not change anybody's data set
    assert [int(sample.name.split()[1][:-4]) for sample in plan.shuffled(some(20), 0)] == ORDER


ORDER = [6, 8, 1, 14, 5, 11, 17, 0, 10, 7, 18, 15, 19, 12, 13, 4, 16, 9, 3, 2]


def test_a_shuffle_mixes_classes() -> None:
    made, text = make(some(700), 10)
    for shard in in_shards(made, text):
        assert len({sample.label for sample in shard}) == 7


def test_a_plan_survives_being_stored() -> None:
    made, _ = make(some(50), 7, drop=True)
    assert Plan.parse(made.text().encode()) == made
    assert Plan.parse(made.text().encode()).id == made.id


@pytest.mark.parametrize(
    "other",
    [dict(shards=6), dict(seed=1), dict(format="tfrecord"), dict(count=51)],
    ids=str,
)
def test_another_plan_has_another_id(other: dict[str, int]) -> None:
    given = {"count": 50, "shards": 5} | other
    count = given.pop("count")
    assert make(some(50), 5)[0].id != make(some(count), **given)[0].id  # type: ignore[arg-type]


def test_recordio_asks_for_labels() -> None:
    with pytest.raises(UsageError, match="needs a label in each record"):
        make([Sample("a.jpg", None)], 1, format="recordio")


@pytest.mark.parametrize("shards", [0, 1_000_000])
def test_a_number_of_shards_has_limits(shards: int) -> None:
    with pytest.raises(UsageError, match="must be 1 to 999,999"):
        make(some(5), shards)
