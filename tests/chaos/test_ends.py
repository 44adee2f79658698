"""Rows of the chaos table: nodes whose end EC2 announces. Their jobs write a checkpoint, and run again."""

from __future__ import annotations

import block
import pytest
from rows import Job, Row, waiting

pytestmark = pytest.mark.partitions("spot", "block")
CHECKPOINT = "checkpoint written"
BLOCK_TERMINATES_IN_S = 120
"""The head node asks EC2 once a minute, and requeues jobs 40 s before the end."""


def with_signal(row: Row, partition: str) -> Job:
    """A job on two nodes of the partition that writes a checkpoint at its signal."""
    options = ("--partition", partition, "--nodes", "2", "--signal", "USR1@60")
    job = row.submit(*options, "--", *waiting(f"trap 'echo {CHECKPOINT}' USR1; "), follow=True)
    job.wait_until("started", 2)
    return job


def runs_again(job: Job) -> None:
    job.wait_until("started", 4)
    assert job.log.count(CHECKPOINT) == 2


@pytest.mark.fault("EC2 announces the end of a spot instance while its job runs")
def test_a_spot_notice(row: Row) -> None:
    job = with_signal(row, "spot")
    node = job.nodes[1]
    ended = row.bed.instance_of(node)
    row.begins()
    row.fault_of(node, "interruption", "--delay-s", "75")
    row.follows(job, f"{node} was lost: spot: EC2 will terminate it at ")
    runs_again(job)
    row.ends("the job got its signal and ran again on two nodes")
    assert ended not in [row.bed.instance_of(each) for each in job.nodes]
    job.goes_on()


@pytest.mark.fault("a Capacity Block ends while its job runs")
def test_a_capacity_block_that_ends(row: Row) -> None:
    job = with_signal(row, "block")
    (ended,) = block.used(row.bed)
    row.begins()
    row.fault_add("block-end", "--reservation-id", ended, "--delay-s", str(BLOCK_TERMINATES_IN_S))
    row.follows(job, f"was lost: Capacity Block {ended}: EC2 will terminate it at ")
    row.follows(job, f"Capacity Block {ended} ends: EC2 terminates its instances from ")
    row.why(job, f"Capacity Block {ended} ends: EC2 terminates its instances from ")
    block.use(row.bed, block.bought(row.bed))
    row.bed.up()
    runs_again(job)
    row.ends("the job got its signal, waits, and runs again once `gpucluster up` has given the partition another block")
    job.goes_on()
