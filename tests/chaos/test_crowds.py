"""Rows of the chaos table: many jobs at once."""

from __future__ import annotations

import pytest
from bed import wait_for
from rows import ANSWER, Job, Row, counting

pytestmark = pytest.mark.partitions("crowds")
OTHERS = """
mkdir -p /tmp/crowd && cd /tmp/crowd
for i in $(seq 49); do sbatch --parsable --exclusive --partition crowds --output /dev/null --wrap 'sleep 3'; done
"""


@pytest.mark.fault("50 jobs at once for 4 nodes")
def test_fifty_jobs_at_once(row: Row) -> None:
    """49 are submitted on the head node, as by a script. The user waits for the last one."""
    row.begins()
    others = row.bed.ssh("sh", "-c", OTHERS).split()
    row.jobs += [Job(row.bed, each, folder="") for each in others]
    last = row.submit("--", *counting(1), follow=True)
    row.follows(last, "other jobs are ahead of it")
    row.why(last, "other jobs are ahead of it")
    row.why(last, "it needs 1 of the 4 nodes of crowds: 0 free, 4 busy or starting")
    last.completes(900)

    def of_all(column: str) -> list[str]:
        return row.bed.ssh("squeue", "-h", "-t", "all", "-O", column, "-j", ",".join([*others, last.id])).split()

    wait_for("all jobs", lambda: of_all("State") == ["COMPLETED"] * 50, 900)
    assert of_all("RestartCnt") == ["0"] * 50
    row.ends("each runs once")


@pytest.mark.fault("an array of 200")
def test_an_array_of_200(row: Row) -> None:
    row.begins()
    job = row.submit("--no-exclusive", "--gpus-per-node", "0", "--array", "0-199", "--", *counting(1))
    row.why(job, " pending")
    count_answers = f"cat {job.folder}/*/log.txt 2>/dev/null | grep -c '{ANSWER}' || :"
    wait_for("all elements", lambda: row.bed.ssh("sh", "-c", count_answers).strip() == "200", 1200, interval_s=5)
    row.ends("200 elements, 200 answers")
