"""A row of the chaos table: Slurm without its accounts. Rows that run beside it do not need them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from bed import Bed, wait_for
from rows import Job, Row

pytestmark = pytest.mark.partitions("accounts")
ACCOUNTS_DOWN_S = 600


@pytest.mark.fault("slurmdbd is down for ten minutes")
def test_slurmdbd_down(row: Row) -> None:
    job = row.settled()
    row.begins()
    with masked(row.bed, "slurmdbd"):
        began = time.monotonic()
        row.status("Slurm's accounting (slurmdbd) does not answer")
        meanwhile = row.submit("--", "echo", "the answer is 5050")
        wait_for("a job without accounts", lambda: "5050" in meanwhile.log, 300)
        time.sleep(max(0.0, ACCOUNTS_DOWN_S - (time.monotonic() - began)))
    wait_for("its record", lambda: recorded(row.bed, meanwhile) == "COMPLETED", 180)
    row.ends("jobs start, run and complete; their records follow")
    job.is_same_process()
    wait_for("the record of the job before", lambda: recorded(row.bed, job) == "COMPLETED", 60)


@contextmanager
def masked(bed: Bed, unit: str) -> Iterator[None]:
    """The service does not run, and nothing can start it."""
    bed.ssh("sudo", "systemctl", "mask", "--runtime", "--now", unit)
    try:
        yield
    finally:
        bed.ssh("sudo", "systemctl", "unmask", "--runtime", unit)
        bed.ssh("sudo", "systemctl", "start", unit)


def recorded(bed: Bed, job: Job) -> str:
    return bed.ssh("sh", "-c", f"sacct -X -n -P -o State -j {job.id} 2>/dev/null || :").strip()
