"""A user's max_gpus counts nodes that the jobs hold, also without a GPU."""

from __future__ import annotations

import pytest
from bed import Bed

HELD = {
    "all CPUs of a node": ["--nodes=1", "--ntasks-per-node=48"],
    "one CPU of each of two nodes": ["--nodes=2", "--ntasks-per-node=1"],
    "a whole node": ["--exclusive"],
    "a whole node without its GPUs": ["--exclusive", "--gres=none"],
    "more GPUs": ["--gres=gpu:2"],
}


def reason(people: Bed, *words: str) -> str:
    """The reason of carol's pending job, or the state of one that runs. The job is cancelled."""
    done = people.of("carol").gpucluster("ssh", "--", "sbatch", "--parsable", *words, "--wrap=sleep\\ 300")
    job = done.stdout.strip()
    assert job.isdigit(), done.stdout + done.stderr
    look = f"for _ in $(seq 40); do said=$(squeue -h -j {job} -o '%T %r'); "
    look += 'case $said in *Assoc*|RUNNING*|CONFIGURING*) break;; esac; sleep 0.5; done; echo "$said"'
    try:
        return people.ssh("sh", "-c", look)
    finally:
        people.ssh("sh", "-c", f"sudo scancel {job}")


@pytest.mark.parametrize("how", HELD)
def test_a_job_that_holds_more_stays_pending(people: Bed, how: str) -> None:
    assert "PENDING AssocGrp" in reason(people, *HELD[how])


@pytest.mark.parametrize("words", [["--gres=gpu:1"], ["--ntasks=12"]])
def test_a_job_within_the_limit_runs(people: Bed, words: list[str]) -> None:
    assert reason(people, *words).split()[0] in ("RUNNING", "CONFIGURING")


def test_the_limit_is_in_the_database(people: Bed) -> None:
    shown = people.ssh("sh", "-c", "sudo sacctmgr -nP list association user=carol format=GrpTRES,MaxSubmitJobs")
    assert shown.strip() == "billing=199999,gres/gpu=1|5000"
