"""Rows of the chaos table: services of AWS that do not answer. These rows run alone."""

from __future__ import annotations

import time

import pytest
from bed import wait_for
from powered_off import powered_off_node
from rows import Row, counting

LOOKUP = "date +%s.%N; getent ahostsv4 at-$(date +%s%N).gpucluster.internal. ; date +%s.%N"
"""A lookup of a name that nobody has looked up before. It has no address."""


@pytest.mark.fault("EC2's API is down for two minutes")
def test_ec2_is_down(row: Row) -> None:
    first = row.running(follow=True)
    later = ("--partition", "either", "--nodes", "2", "--begin", "now+15")
    second = row.submit(*later, "--", *counting(5), follow=True)
    row.fault_add("unavailable", "--action", "ec2:*")
    row.begins()
    until = time.monotonic() + 120
    row.follows(second, "Unavailable", 60)
    time.sleep(max(0.0, until - time.monotonic()))
    assert not row.bed.ssh("sinfo", "-h", "-R").strip(), "no node is set DOWN"
    row.clear()
    wait_for("the second job to run", lambda: second.state == "RUNNING", 90)
    row.ends("the running job continues; the other one's nodes are launched when EC2 answers again")
    second.completes()
    first.is_same_process()


@pytest.mark.fault("DNS answers after three seconds while a node boots and its job runs")
def test_slow_names(row: Row) -> None:
    node = powered_off_node(row.bed)
    row.begins()
    row.fault_add("slow-dns", "--delay-s", "3")
    job = row.running(f"--sbatch-args=--nodelist={node}", follow=True)
    began, *_, ended = row.bed.ssh("ssh", node, LOOKUP).split()
    assert float(ended) - float(began) >= 3, "the lookup was not slow"
    job.goes_on()
    row.ends("the node booted and the job ran")
    row.sees_nothing(job)


@pytest.mark.fault("DNS does not answer for a minute while a job starts and another one runs")
def test_no_names(row: Row) -> None:
    row.running("--nodes", "2").goes_on()  # two nodes are up
    running = row.running()
    row.begins()
    row.fault_add("slow-dns", "--delay-s", "60")
    until = time.monotonic() + 60
    job = row.submit("--", *counting(5), follow=True)
    row.follows(job, "Temporary failure in name resolution")
    time.sleep(max(0.0, until - time.monotonic()))
    row.clear()
    job.completes()
    running.is_same_process()
    row.ends("Slurm asked again until DNS answered; both jobs ran")
