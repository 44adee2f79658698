"""Nodes launch, are named and end at AWS's pace: resume, suspend and reconcile on virtual time. See docs/pace.md.

What takes longer to play is in tests/nightly/test_power_at_scale.py.
"""

from __future__ import annotations

import pytest

from tests.pace.scenarios import play


@pytest.mark.parametrize(
    ("scenario", "seconds", "run_instances"),
    [
        ("16 jobs of a node", 300, 1),
        ("array of 64", 300, 1),
        ("two types of three without capacity", 300, 3),
        ("throttled", 600, 13),
    ],
)
def test_nothing_is_set_down_lost_or_launched_twice(scenario: str, seconds: float, run_instances: int) -> None:
    found = play(scenario)
    assert found.ended
    assert found.failures == []
    assert found.reasons == []
    assert (found.leaked, found.launches) == (0, found.wanted)
    assert found.seconds < seconds
    assert found.calls["ec2:RunInstances"] <= run_instances
