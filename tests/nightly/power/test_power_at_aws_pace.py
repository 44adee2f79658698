"""Nodes launch, are named and end at AWS's pace: resume, suspend and reconcile on virtual time. See docs/pace.md.

The other scenarios are in tests/nightly/power/test_power_at_scale.py and tests/nightly/power/test_power_in_waves.py.
"""

from __future__ import annotations

from tests.pace.scenarios import play

SUBJECTS = [
    "bootstrap/gpucluster_node/aws.py",
    "bootstrap/gpucluster_node/dns.py",
    "bootstrap/gpucluster_node/ec2.py",
    "bootstrap/gpucluster_node/names.py",
    "bootstrap/gpucluster_node/power/ended.py",
    "bootstrap/gpucluster_node/power/in_flight.py",
    "bootstrap/gpucluster_node/power/launch.py",
    "bootstrap/gpucluster_node/power/launched.py",
    "bootstrap/gpucluster_node/rates.py",
    "bootstrap/gpucluster_node/power/reconcile.py",
    "bootstrap/gpucluster_node/power/resume.py",
    "bootstrap/gpucluster_node/power/groups.py",
    "bootstrap/gpucluster_node/power/joining.py",
    "bootstrap/gpucluster_node/power/wanted.py",
    "bootstrap/gpucluster_node/retry.py",
    "bootstrap/gpucluster_node/power/suspend.py",
    "localcloud/pace/*",
    "tests/pace/*",
    "localcloud/tests/virtual_time/*",
]


def test_one_call_launches_16_jobs_and_no_node_is_down_or_lost() -> None:
    found = play("16 single-node jobs")
    assert found.ended
    assert (found.failures, found.reasons) == ([], [])
    assert (found.leaked, found.launches) == (0, found.wanted)
    assert found.seconds < 300
    assert found.calls["ec2:RunInstances"] == 1
