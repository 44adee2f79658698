"""An array of 64, types without capacity, and throttled calls, at AWS's pace. See localcloud/docs/pace.md."""

from __future__ import annotations

import pytest

from tests.pace.scenarios import play

SUBJECTS = [
    "bootstrap/gpucluster_node/aws.py",
    "bootstrap/gpucluster_node/dns.py",
    "bootstrap/gpucluster_node/ec2.py",
    "bootstrap/gpucluster_node/names.py",
    "bootstrap/gpucluster_node/power/ended.py",
    "bootstrap/gpucluster_node/power/daemon.py",
    "bootstrap/gpucluster_node/power/journal.py",
    "bootstrap/gpucluster_node/power/launch.py",
    "bootstrap/gpucluster_node/power/last_launches.py",
    "bootstrap/gpucluster_node/rates.py",
    "bootstrap/gpucluster_node/power/reconcile.py",
    "bootstrap/gpucluster_node/power/resume.py",
    "bootstrap/gpucluster_node/power/groups.py",
    "bootstrap/gpucluster_node/power/joining.py",
    "bootstrap/gpucluster_node/power/demand.py",
    "bootstrap/gpucluster_node/retry.py",
    "bootstrap/gpucluster_node/power/suspend.py",
    "localcloud/pace/*",
    "tests/pace/*",
    "localcloud/testing/virtual_time/*",
]
COVERED_BY = (
    "test_power_at_aws_pace.py simulates 16 jobs; test_node_launch.py, test_node_shortage.py, test_node_reconcile.py"
)


@pytest.mark.parametrize(
    ("scenario", "seconds", "run_instances"),
    [("array of 64", 300, 1), ("two types of three without capacity", 300, 3), ("throttled", 600, 13)],
)
def test_no_node_is_set_down_lost_or_launched_twice(scenario: str, seconds: float, run_instances: int) -> None:
    found = play(scenario)
    assert found.ended
    assert found.failures == []
    assert found.reasons == []
    assert (found.leaked, found.launches) == (0, found.wanted)
    assert found.seconds < seconds
    assert found.calls["ec2:RunInstances"] <= run_instances
