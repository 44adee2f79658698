"""gpucluster_train.feed: the time in which training waits for its data, by a clock that the test moves."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpucluster_train.feed import Feed, GpuWaits


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now

    def runs(self, seconds: float) -> None:
        self.now += seconds


def slow(clock: Clock, *seconds: float) -> Iterator[int]:
    for number, each in enumerate(seconds):
        clock.runs(each)
        yield number


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), max_size=20))
def test_share_is_the_time_in_which_training_waited(steps: list[tuple[int, int]]) -> None:
    clock = Clock()
    feed = Feed(slow(clock, *(float(wait) for wait, _ in steps)), clock)
    for number in feed:
        clock.runs(steps[number][1])
    waited, total = sum(wait for wait, _ in steps), sum(map(sum, steps))
    assert feed.waited_s == waited and feed.seconds == total
    assert feed.share == (pytest.approx(waited / total) if total else 0)


def test_the_report_is_a_line_that_a_metric_finds_and_starts_anew_with_each_pass() -> None:
    clock = Clock()

    class Loader:
        delay = 3.8

        def __iter__(self) -> Iterator[int]:
            return slow(clock, self.delay)

        def __len__(self) -> int:
            return 1

    loader = Loader()
    feed = Feed(loader, clock)
    assert len(feed) == 1 and feed.report() == "data not counted"
    for _ in feed:
        clock.runs(8.6)
    assert feed.report() == "data 31 % of 12.4 s"
    clock.runs(100)  # a checkpoint is not a part of the pass
    assert feed.report() == "data 31 % of 12.4 s"
    loader.delay = 0
    for _ in feed:
        clock.runs(5)
        assert feed.report() == "data 0 % of 5.0 s"


def test_a_function_begins_a_pass_of_a_generator() -> None:
    feed = Feed(lambda: (number for number in range(3)))
    assert list(feed) == list(feed) == [0, 1, 2]


def test_a_pass_that_is_left_early_ends_there() -> None:
    clock = Clock()
    for _ in (feed := Feed(slow(clock, 1.0, 1.0), clock)):
        clock.runs(1.0)
        break
    clock.runs(50)
    assert feed.report() == "data 50 % of 2.0 s"


def test_an_error_of_the_loader_reaches_the_program() -> None:
    def broken() -> Iterator[int]:
        yield 1
        raise ValueError("image 7 is truncated")

    with pytest.raises(ValueError, match="image 7 is truncated"):
        list(Feed(broken()))
    with pytest.raises(TypeError, match="has no len"):
        len(Feed(broken()))


class Gpu:
    """Works off what was handed to it, in order. An event is timed when the GPU reaches it, as CUDA does."""

    def __init__(self, clock: Clock) -> None:
        self.clock, self.free_at = clock, clock.now

    def step(self, seconds: float) -> None:
        self.free_at = max(self.free_at, self.clock.now) + seconds

    def event(self, *, enable_timing: bool) -> GpuEvent:
        assert enable_timing  # without it, elapsed_time raises
        return GpuEvent(self)


class GpuEvent:
    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu

    def record(self) -> None:
        self.at = max(self.gpu.free_at, self.gpu.clock.now)

    def query(self) -> bool:
        return self.gpu.clock.now >= self.at

    def elapsed_time(self, end: GpuEvent) -> float:
        assert self.query() and end.query()  # CUDA refuses events that it has not reached
        return 1000 * (end.at - self.at)


@pytest.mark.parametrize(
    ("loading", "share"),
    [(0.9, 0.0), (1.0, 0.0), (2.0, 0.5)],
    ids=["the loader is faster than the GPU", "equally fast", "half as fast"],
)
def test_a_wait_costs_nothing_while_the_gpu_still_works(
    monkeypatch: pytest.MonkeyPatch, loading: float, share: float
) -> None:
    """The program spends nearly all of its time in the wait; the GPU takes 1 s for a step."""
    clock = Clock()
    gpu = Gpu(clock)
    monkeypatch.setattr("gpucluster_train.feed.waits", lambda _: GpuWaits(gpu.event))
    feed = Feed(slow(clock, *[loading] * 100), clock)
    for _ in feed:
        gpu.step(1.0)
    clock.now = max(clock.now, gpu.free_at)
    assert feed.share == pytest.approx(share, abs=0.02)
