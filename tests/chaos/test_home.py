"""Rows of the chaos table: faults of the shared file system, /home. Slurm's state is on the same volume."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePosixPath

import pytest
from bed import Bed, wait_for
from rows import Job, Row, counting, waiting

FILL = """
cd /home/ubuntu
fallocate -l $(($(df --output=avail -B1 /home | tail -n 1) - 16777216)) full
for size in 64k 4k; do dd if=/dev/zero of=rest-$size bs=$size 2>/dev/null || :; done
"""
"""As a user, who cannot take what is reserved for Slurm. `fallocate` writes nothing to the disk of this machine."""

STALLED_S = 60
STALL = f"""
fsfreeze --freeze /home
(date +%s.%N > started; echo > /home/stalled; date +%s.%N > written) &
sleep {STALLED_S}
date +%s.%N > thaws
fsfreeze --unfreeze /home
wait
rm /home/stalled
"""
"""In a folder elsewhere, where it notes when a write has started and was completed."""


@contextmanager
def full_home(bed: Bed) -> Iterator[None]:
    bed.ssh("sh", "-c", FILL)
    try:
        yield
    finally:
        bed.ssh("sh", "-c", "rm -f /home/ubuntu/full /home/ubuntu/rest-*")


def until(file: str) -> list[str]:
    """A command that ends when a file exists on its node, which may be there from an earlier sitting."""
    return ["bash", "-c", f"rm -f {file}; echo started; until [ -e {file} ]; do sleep 1; done; echo the answer is 5050"]


@pytest.mark.fault("/home is full")
def test_full_home(row: Row) -> None:
    job = row.settled()
    ends = row.submit("--", *until("/tmp/ends"), follow=True)
    ends.wait_until("started")
    before = folders(job)
    row.begins()
    with full_home(row.bed):
        row.status("100 % full")
        refused = row.bed.gpucluster("submit", "--python", row.bed.python, *row.options, "--", "true")
        assert refused.returncode == 3, refused.stderr
        assert "/home on the cluster is full: 0 of " in refused.stderr
        assert "; the job was not submitted" in refused.stderr and "delete what you no longer need" in refused.stderr
        assert folders(job) == before, "a refused submission leaves nothing behind"
        row.bed.ssh("ssh", *ends.nodes, "touch /tmp/ends")
        assert ends.ends() == "COMPLETED"
        row.why(ends, "it wrote no result.json; `gpucluster status` shows whether /home is full")
    row.ends("`submit` names the cause; jobs continue; one that ends cannot write its result, and `why` says so")
    job.is_same_process()
    after = row.submit("--", *counting(1))
    after.completes()


def folders(job: Job) -> list[str]:
    return job.bed.ssh("ls", str(PurePosixPath(job.folder).parent)).split()


@pytest.mark.fault("the volume of /home does not complete any write for a minute")
def test_a_stalled_home(row: Row) -> None:
    """As AWS's Fault Injection Service does it (aws:ebs:pause-volume-io). Slurm's state is on the same volume."""
    job = row.submit("--nodes", "2", "--", *waiting(meanwhile="date; "), follow=True)
    job.wait_until("started", 2)
    row.begins()
    stall(row.bed)
    other = row.submit("--", *counting(5))
    submitted = time.time()
    other.completes()
    job.goes_on()
    assert job.log.count("started") == 2, "it did not run again"
    started, thaws, written = wait_for("a write that started meanwhile", lambda: stalled(row.bed), 60)
    assert started + STALLED_S - 1 < thaws < written, "it was completed before the end"
    assert submitted > thaws
    assert job.followed and job.followed.longest_silence_s > STALLED_S / 2
    row.saw = "the log stood still; `submit` waited"
    row.ends("both jobs ran")


def stall(bed: Bed) -> None:
    """Returns when /home has been frozen."""
    bed.ssh("sudo", "sh", "-c", "rm -rf /run/stalled && mkdir /run/stalled")
    in_background = ("sudo", "systemd-run", "--quiet", "--collect", "--working-directory=/run/stalled")
    bed.ssh(*in_background, "sh", "-c", STALL)
    wait_for("the write that starts meanwhile", lambda: bed.ssh("ls", "/run/stalled"), 30, interval_s=0.2)


def stalled(bed: Bed) -> list[float]:
    """When the write started, when /home was about to complete writes again, and when the write was completed."""
    found = bed.ssh("sh", "-c", "cd /run/stalled && cat started thaws written 2>/dev/null || :").split()
    return [float(each) for each in found] if len(found) == 3 else []
