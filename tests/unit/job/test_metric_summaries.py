"""The summary of a metric whose values have no end."""

from __future__ import annotations

import random
import tracemalloc

import pytest

from gpucluster_job.metrics.summary import MEDIAN_OF, Summary


def test_a_metric_of_any_length_takes_little_memory() -> None:
    """A thousand metrics share the memory that the job has on its node with the training."""
    tracemalloc.start()
    made = Summary()
    for number in range(20 * MEDIAN_OF):
        made.add(number / 2)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert taken < 300_000
    assert made.fields()["count"] == 20 * MEDIAN_OF


def test_the_median_of_a_long_stream_is_near_enough() -> None:
    chance, made = random.Random(1), Summary()
    for _ in range(10 * MEDIAN_OF):
        made.add(chance.random())
    assert made.fields()["median"] == pytest.approx(0.5, abs=0.03)
