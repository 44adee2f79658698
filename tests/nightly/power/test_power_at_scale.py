"""A job of a thousand nodes, nodes that are wanted while they end, and a wave of ended instances, at AWS's pace."""

from __future__ import annotations

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


def test_a_job_of_a_thousand_nodes_starts_in_minutes() -> None:
    found = play("1 job of 1000 nodes")
    assert found.ended
    assert (found.failures, found.reasons) == ([], [])
    assert (found.leaked, found.launches) == (0, 1000)
    assert found.calls["ec2:RunInstances"] == 1
    assert found.seconds < 400


def test_nodes_that_are_wanted_while_their_instances_end_wait_for_their_reservation() -> None:
    found = play("wanted again while they end")
    assert found.ended
    assert (found.failures, found.reasons) == ([], [])
    assert (found.leaked, found.launches) == (0, 4)
    assert found.seconds < 700


def test_if_many_instances_end_at_once_each_is_replaced_by_one_launch() -> None:
    found = play("32 running nodes ended at once")
    assert found.ended
    assert found.failures == []
    assert (found.leaked, found.launches, found.down_while_launching) == (0, 64, 0)
    assert found.downs == 32
    assert found.seconds < 600
