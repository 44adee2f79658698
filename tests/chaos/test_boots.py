"""Rows of the chaos table: nodes that do not boot."""

from __future__ import annotations

import pytest
from bed import wait_for
from powered_off import powered_off_node
from rows import Row, counting

pytestmark = pytest.mark.partitions("boots")
NEXT = ("--instance-type", "g5.2xlarge", "--count", "1")
"""The next launch in the partition."""


@pytest.mark.fault("a boot step of a node fails")
def test_a_failed_step(row: Row) -> None:
    node = powered_off_node(row.bed, "boots")
    row.fault_add("broken", "--command", "slurmd", "--message", "slurmd: fatal: no such luck", *NEXT)
    row.begins()
    job = row.submit(f"--sbatch-args=--nodelist={node}", "--", *counting(5))
    row.why(job, "no such luck")
    row.bed.ssh("scontrol", "update", f"jobid={job.id}", "reqnodelist=")
    job.completes()
    row.ends("the job ran on another node; this one is terminated, and used again after 300 s")


@pytest.mark.fault("the operating system of a node hangs while it boots")
def test_a_hung_boot(row: Row) -> None:
    node = powered_off_node(row.bed, "boots")
    row.fault_add("failed-boot", *NEXT)
    row.begins()
    job = row.submit(f"--sbatch-args=--nodelist={node}", "--", *counting(5))
    hung = wait_for("the instance", lambda: _instances_of(row, node), 120)
    row.why(job, "it does not boot: EC2's status checks fail", 600)
    job.completes()
    row.ends("given up when EC2's status check has failed for three minutes; the job ran on the node's next instance")
    wait_for("the instance's end", lambda: not hung & _instances_of(row, node), 60)


def _instances_of(row: Row, node: str) -> set[str]:
    found = row.bed.instances("compute")
    return {id_ for id_, each in found.items() if each["node"] == node}
