"""Suggestions for misspelt names of every kind."""

from __future__ import annotations

import pytest

from gpucluster.cli import VERBS
from gpucluster.config.checks.cluster import REGIONS
from gpucluster.hardware.instances import INSTANCE_TYPES
from gpucluster.launchers import LAUNCHERS
from gpucluster.meant import did_you_mean, near


@pytest.mark.parametrize(
    ("typed", "known", "meant"),
    [
        ("p4.24xlarge", INSTANCE_TYPES, "p4d.24xlarge"),
        ("g5.12xlrge", INSTANCE_TYPES, "g5.12xlarge"),
        ("P5.48xlarge", INSTANCE_TYPES, "p5.48xlarge"),
        ("us-east1", REGIONS, "us-east-1"),
        ("sumbit", VERBS, "submit"),
        ("torchrn", LAUNCHERS, "torchrun"),
        ("tensorflow_ps", LAUNCHERS, "tensorflow-ps"),
        ("idle-minutes", ["min_nodes", "idle_minutes"], "idle_minutes"),
    ],
)
def test_the_likeliest_word_comes_first(typed: str, known: list[str], meant: str) -> None:
    assert near(typed, known)[0] == meant


def test_nothing_is_near_nonsense() -> None:
    assert near("quantum.huge", INSTANCE_TYPES) == []
    assert did_you_mean("quantum.huge", INSTANCE_TYPES) is None
    assert did_you_mean("quantum", ["a", "b"], "known: a, b") == "known: a, b"


def test_all_equally_near_words_are_named() -> None:
    assert (
        did_you_mean("g5.12xlrge", ["g5.12xlarge", "g5.2xlarge", "m5.large"])
        == "did you mean 'g5.12xlarge' or 'g5.2xlarge'?"
    )
