"""gpucluster_train: learning rates against numbers worked out by hand, and who a process is."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpucluster_train import RULES, Schedule, World, batches, scaled, world
from gpucluster_train.world import cpus

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    ("batch", "rule", "expected"),
    [
        (16384, "linear", 6.4),  # 64 times the batch
        (16384, "two-thirds", 1.6),  # 64 = 4³, and 4² = 16
        (16384, "square-root", 0.8),
        (16384, "constant", 0.1),
        (256, "linear", 0.1),
        (256, "square-root", 0.1),
        (32, "linear", 0.0125),  # an eighth
        (32, "two-thirds", 0.025),
        (64, "square-root", 0.05),
    ],
)
def test_scaled_learning_rates(batch: int, rule: str, expected: float) -> None:
    assert scaled(0.1, batch, of=256, rule=rule) == pytest.approx(expected)


def test_an_unknown_rule_and_an_empty_batch_are_refused() -> None:
    with pytest.raises(
        ValueError, match=r"there is no scaling rule 'cubic'; known: linear, two-thirds, square-root, constant"
    ):
        scaled(0.1, 256, of=256, rule="cubic")
    with pytest.raises(ValueError, match="at least one sample, got 0"):
        scaled(0.1, 0, of=256)


def test_the_batch_grows_with_the_ranks() -> None:
    found = batches(0.1, of=256, world_size=64, per_rank=256)
    assert (found.per_rank, found.world, found.learning_rate) == (256, 16384, pytest.approx(6.4))
    assert found.steps(1281167) == 78


@pytest.mark.parametrize("ranks", [1, 2, 8, 64])
def test_a_global_batch_stays_and_so_does_its_learning_rate(ranks: int) -> None:
    found = batches(0.1, of=256, world_size=ranks, in_all=512)
    assert (found.per_rank, found.world, found.learning_rate) == (512 // ranks, 512, pytest.approx(0.2))


def test_impossible_batches_are_refused() -> None:
    with pytest.raises(ValueError, match="64 ranks cannot share a batch of 1000 evenly; 1024 is possible"):
        batches(0.1, of=256, world_size=64, in_all=1000)
    for wrong in ({}, {"per_rank": 8, "in_all": 8}):
        with pytest.raises(ValueError, match="give either per_rank or in_all"):
            batches(0.1, of=256, world_size=1, **wrong)
    with pytest.raises(ValueError, match="needs 64 samples, got 63"):
        batches(0.1, of=256, world_size=4, per_rank=16).steps(63)


@pytest.mark.parametrize(
    ("epoch", "expected"),
    [
        (0, 0.001),
        (5, 3.2005),  # halfway between 0.001 and 6.4
        (10, 6.4),
        (30, 3.6000044),  # 3/4 of the fall is left: 9/16 of 6.39999 above 0.00001
        (50, 1.6000075),  # 1/2: 1/4
        (70, 0.4000094),  # 1/4: 1/16
        (90, 0.00001),
        (91, 0.00001),
    ],
)
def test_the_schedule_of_2018(epoch: int, expected: float) -> None:
    schedule = Schedule.of_epochs(6.4, 90, 78, warmup_epochs=10, start=0.001, end=0.00001)
    assert schedule(epoch * 78) == pytest.approx(expected, rel=1e-6)


def test_other_schedules_of_the_learning_rate() -> None:
    straight = Schedule(peak=1.0, steps=10, power=1)
    assert [straight(step) for step in (0, 1, 5, 10)] == pytest.approx([1.0, 0.9, 0.5, 0.0])
    steep = Schedule(peak=1.0, steps=10, power=0.5, end=0.2)
    assert steep(5) == pytest.approx(0.2 + 0.8 * 0.5**0.5)


@given(
    st.floats(0.01, 10), st.integers(0, 50), st.integers(1, 200), st.floats(0, 1), st.floats(0, 1), st.floats(0.5, 3)
)
def test_the_rate_rises_to_its_peak_and_falls_from_it(
    peak: float, warmup: int, falling: int, start: float, end: float, power: float
) -> None:
    schedule = Schedule(peak, warmup + falling, warmup, start * peak, end * peak, power)
    rates = [schedule(step) for step in range(warmup + falling + 2)]
    assert rates[warmup] == pytest.approx(peak) == max(rates)
    slack = 1e-9 * peak
    assert all(lower <= higher + slack for lower, higher in zip(rates[:warmup], rates[1 : warmup + 1], strict=True))
    assert all(lower <= higher + slack for higher, lower in zip(rates[warmup:], rates[warmup + 1 :], strict=False))
    assert rates[-1] == pytest.approx(end * peak)


@pytest.mark.parametrize(("steps", "warmup"), [(10, 10), (10, 11), (0, 0), (10, -1)])
def test_a_warm_up_that_does_not_fit_is_refused(steps: int, warmup: int) -> None:
    with pytest.raises(ValueError, match=f"a warm-up of {warmup} steps is too long: the training has {steps}"):
        Schedule(1.0, steps, warmup)


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, World()),
        ({"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1"}, World(3, 4, 1)),
        (
            {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "GPUCLUSTER_LAUNCHER": "smddp"},
            World(3, 4, 1, "smddp"),
        ),
        ({"HOROVOD_RANK": "1", "HOROVOD_SIZE": "2", "HOROVOD_LOCAL_RANK": "0"}, World(1, 2, 0)),
        (
            {"OMPI_COMM_WORLD_RANK": "5", "OMPI_COMM_WORLD_SIZE": "8", "OMPI_COMM_WORLD_LOCAL_RANK": "1"},
            World(5, 8, 1),
        ),
        ({"RANK": "3"}, World()),  # somebody's own variable
    ],
)
def test_the_rank_of_a_process(variables: dict[str, str], expected: World) -> None:
    assert world(variables) == expected
    assert world(variables).is_first == (expected.rank == 0)


@pytest.mark.parametrize(
    ("rank", "size", "local_rank", "message"),
    [
        ("4", "4", "0", "RANK=4, WORLD_SIZE=4, LOCAL_RANK=0"),
        ("0", "4", "1", "inconsistent variables"),
        ("-1", "4", "0", "inconsistent variables"),
        ("one", "4", "0", "RANK must be a whole number, got 'one'"),
    ],
)
def test_contradicting_variables_are_refused(rank: str, size: str, local_rank: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        world({"RANK": rank, "WORLD_SIZE": size, "LOCAL_RANK": local_rank})


@given(st.integers(0, 500), st.integers(1, 9))
def test_ranks_share_samples_evenly_and_none_twice(count: int, size: int) -> None:
    shares = [World(rank, size).share(count) for rank in range(size)]
    assert {len(share) for share in shares} == {count // size}
    assert sorted(index for share in shares for index in share) == list(range(count - count % size))


@given(st.integers(0, 50_000), st.integers(1, 64))
def test_parts_for_validation_have_every_sample_once(count: int, size: int) -> None:
    parts = [World(rank, size).part(count) for rank in range(size)]
    assert sorted(index for part in parts for index in part) == list(range(count))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_64_ranks_validate_with_all_of_imagenet() -> None:
    assert sum(len(World(rank, 64).part(50_000)) for rank in range(64)) == 50_000
    assert sum(len(World(rank, 64).share(50_000)) for rank in range(64)) == 49_984  # of equal parts


@pytest.mark.parametrize(
    ("environment", "usable", "expected"),
    [
        ({}, 16, 16),
        ({"LOCAL_WORLD_SIZE": "8", "SLURM_CPUS_ON_NODE": "96"}, 96, 12),  # p4d, torchrun
        ({"LOCAL_WORLD_SIZE": "8", "SLURM_CPUS_ON_NODE": "96"}, 48, 12),  # bound to the socket of its GPU
        ({"OMPI_COMM_WORLD_LOCAL_SIZE": "8", "SLURM_CPUS_ON_NODE": "192"}, 24, 24),  # p5, a task for each rank
        ({"HOROVOD_LOCAL_SIZE": "4"}, 64, 16),  # without Slurm
        ({"RANKS_PER_NODE": "1", "SLURM_CPUS_ON_NODE": "64"}, 64, 64),
        ({"LOCAL_WORLD_SIZE": "8"}, 4, 1),
    ],
)
def test_a_rank_has_its_share_of_the_cpus(environment: dict[str, str], usable: int, expected: int) -> None:
    assert cpus(environment, usable) == expected


def test_importing_it_takes_the_standard_library_alone() -> None:
    """Every framework's environment can import it, and no framework is loaded by it."""
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import gpucluster_train; print(*gpucluster_train.__all__)"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    assert "Schedule" in done.stdout.split()
    assert set(RULES) == {"linear", "two-thirds", "square-root", "constant"}
