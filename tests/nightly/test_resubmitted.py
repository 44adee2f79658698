"""A job that its time limit ends three times has the same weights as a run without interruption.

At every push: tests/shell/jobs/test_task_jobs.py runs the same with Slurm's part played, and
tests/cluster/test_tasks.py runs tasks on booted nodes.
"""

from __future__ import annotations

import json
import sys

import pytest
from bed import ROOT, Bed

sys.path.insert(0, str(ROOT / "tests" / "cluster" / "programs"))

from descend import step_from

SUBJECTS = [
    "gpucluster_job/task/*",
    "gpucluster_job/job.py",
    "gpucluster_job/runner.py",
    "gpucluster_job/ranks/end.py",
    "gpucluster_job/ranks/program.py",
    "gpucluster_job/ranks/signals.py",
    "gpucluster/job/task.py",
    "gpucluster/submission/task.py",
    "tests/cluster/programs/descend.py",
]
COVERED_BY = (
    "test_task_jobs.py: runs after the time limit, with a simulated Slurm; test_time_to_save.py: ranks save before "
    "it; runs of a task, booted, in test_tasks.py"
)
STEPS, PAUSE_S = 190, 0.5
"""Each run has one minute, and keeps half of it for its end, so three runs are too few."""


def undisturbed() -> str:
    a = b = 0.0
    for step in range(STEPS):
        a, b = step_from(step, a, b)
    return f"weights {a} {b}"


def test_a_job_goes_on_after_its_time_limit_until_it_is_done(cluster: Bed) -> None:
    programs = ROOT / "tests" / "cluster" / "programs"
    job = cluster.submit(
        "--gpus-per-node", "1", "--launcher", "srun", "--preflight", "off", "--workdir", str(programs),
        "--name", "long", "--time", "1", "--resubmit", "until-done", "--resubmit-limit", "8", "--follow",
        "--", "python", "descend.py", str(STEPS), str(PAUSE_S), timeout_s=600,
    )  # fmt: skip
    assert job.exit_code == 0, job.told
    assert undisturbed() in "\n".join(job.log)
    begins = [int(line.split("begins at step ")[1]) for line in job.log if "begins at step " in line]
    assert begins == sorted(set(begins)) and len(begins) >= 4, begins
    for run in range(1, len(begins) + 1):
        assert f"[launcher] this is run {run} of at most 9" in job.log
    assert job.result["run"] == len(begins)
    kept = cluster.ssh("cat", f"{job.last['folder']}/results/1.json")
    assert json.loads(kept)["reason"] == "stopped at its time limit"
    assert not any("warning: scontrol" in line for line in job.log)  # the next run's begin time, which Slurm took


SAVES = """
import os, signal, sys, time
def save(number, frame):
    print("saving", flush=True)
    time.sleep(0 if os.environ["RANK"] == "0" else 3)
    print("saved", flush=True)
    sys.exit(143)
signal.signal(signal.SIGTERM, save)
while True: time.sleep(0.1)
"""


@pytest.mark.parametrize("launcher", ["srun", "torchrun"])
def test_all_ranks_have_time_to_save_before_the_limit(cluster: Bed, launcher: str) -> None:
    """srun answers SIGTERM with SIGKILL for its tasks. The first rank ends at once."""
    job = cluster.submit(
        "--nodes", "2", "--gpus-per-node", "2", "--launcher", launcher, "--preflight", "off", "--framework", "torch",
        "--name", f"saves-{launcher}", "--time", "1", "--resubmit", "until-done", "--resubmit-limit", "1", "--follow",
        "--", "python", "-c", SAVES, timeout_s=600,
    )  # fmt: skip
    saved = [line for line in job.log if line.endswith("] saved")]
    assert len(saved) == 2 * 4, job.log  # in each of its two runs
    assert job.result["reason"] == "stopped at its time limit, in the last of its 2 runs"
