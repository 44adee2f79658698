"""Nodes launch, are named and end at AWS's pace, on virtual time: resume, reconcile. See localcloud/docs/pace.md.

The other scenarios are in tests/nightly/power/test_power_at_scale.py and tests/nightly/power/test_power_in_waves.py.
"""

from __future__ import annotations

from tests.pace.scenarios import play


def test_one_call_launches_16_jobs_and_no_node_is_down_or_lost() -> None:
    found = play("16 single-node jobs")
    assert found.ended
    assert (found.failures, found.reasons) == ([], [])
    assert (found.leaked, found.launches) == (0, found.wanted)
    assert found.seconds < 300
    assert found.calls["ec2:RunInstances"] == 1
