"""Rows of the chaos table: jobs that hang, or need too much memory or money."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from bed import wait_for
from rows import Row, counting, waiting

HANGS = """
import os, time
print("step", os.environ["RANK"], flush=True)
def forward():
    time.sleep(3600)
def wait_for_peers():
    time.sleep(3600)
forward() if os.environ["RANK"] == "1" else wait_for_peers()
"""
GROWS = """
import os, sys, time
print("step 7", flush=True)
while not os.path.exists(sys.argv[1]): time.sleep(0.2)
if os.environ["RANK"] == "1": held = [bytearray(1000000) for _ in range(1000)]
time.sleep(600)
"""
pytestmark = pytest.mark.partitions("jobs", "limited")
MEMORY = Path("/sys/fs/cgroup/memory")


@pytest.mark.fault("the ranks of a job hang")
def test_a_job_that_hangs(row: Row) -> None:
    job = row.submit("--nodes", "2", "--hang-timeout", "100s", "--", "python", "-c", HANGS, follow=True)
    job.wait_until("] step", 2)
    row.begins()
    row.why(job, "its log has not grown for 1 min")
    row.why(job, "the last line of a rank: [")
    row.follows(job, "no rank has printed a line for 1 min 40 s (hang_timeout)")
    assert job.ends() == "FAILED"
    row.ends("the job ends, and says where each rank stands")
    row.why(job, "rank 1 in forward (<string>:5)")
    row.why(job, "rank 0 in wait_for_peers (<string>:7)")


@contextmanager
def small_memory(marker: str) -> Iterator[None]:
    """Puts the processes of this machine with the marker in their command line into a control group with 50 MB: the
    kernel really kills one that needs more. Nodes are containers of this machine."""
    group = MEMORY / f"gpucluster-{marker}"
    group.mkdir()
    (group / "memory.limit_in_bytes").write_text("50M")
    ranks = [each.parent for each in Path("/proc").glob("[0-9]*/cmdline") if _is_program(each, marker)]
    for rank in ranks:
        (group / "cgroup.procs").write_text(rank.name)
    assert len(ranks) == 2, f"programs of ranks with {marker}: {ranks}"
    yield
    wait_for("the group's end", lambda: not (group / "cgroup.procs").read_text(), 60)
    group.rmdir()


def _is_program(cmdline: Path, marker: str) -> bool:
    """Not the process beside it, whose command line is that of the job's runtime."""
    try:
        words = cmdline.read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return False
    return len(words) > 4 and words[1] == "-c" and words[-2].endswith(marker)


@pytest.mark.fault("a rank needs more memory than there is")
@pytest.mark.skipif(not MEMORY.is_dir(), reason="this machine has no control groups of memory")
def test_a_rank_without_memory(row: Row) -> None:
    marker = f"go-{secrets.token_hex(4)}"
    go = f"/home/ubuntu/{marker}"
    job = row.submit("--ntasks-per-node", "2", "--", "python", "-c", GROWS, go, follow=True)
    job.wait_until("] step 7", 2)
    with small_memory(marker):
        row.begins()
        row.bed.ssh("touch", go)
        row.follows(job, "out of memory: the kernel killed it")
        assert job.ends() in ("FAILED", "OUT_OF_MEMORY")
    row.ends("the job ends, and names the rank")
    node = row.why(job, "rank 1 on jobs-").partition(" on ")[2].partition(" ")[0]
    row.why(job, f"rank 1 on {node} exited with code 137: out of memory: the kernel killed it, last line: step 7")
    row.bed.ssh("rm", go)


@pytest.mark.fault("the nodes of a partition cost as much an hour as they may")
def test_a_partition_without_money(row: Row) -> None:
    """One node costs 3.91 USD, and the partition may cost 5."""
    refused = row.bed.gpucluster(
        "submit", "--partition", "limited", "--nodes", "2", "--python", row.bed.python, "--", "true"
    )
    assert refused.returncode == 2, refused.stderr
    assert "2 nodes of limited cost 7.82 USD an hour, and its max_usd_per_hour is 5" in refused.stderr
    first = row.submit("--partition", "limited", "--", *waiting())
    first.wait_until("started")
    row.begins()
    second = row.submit("--partition", "limited", "--", *counting(1), follow=True)
    row.follows(second, "the limit of 5 USD an hour of partition limited is reached: its nodes cost 3.91 USD an hour")
    row.why(second, "the limit of 5 USD an hour of partition limited is reached")
    row.status("the nodes of limited cost 3.91 of at most 5.00 USD an hour")
    assert first.state == "RUNNING", "no running job ends"
    first.goes_on()
    second.completes()
    row.ends("the launch waits; the job runs once the other node is gone")
