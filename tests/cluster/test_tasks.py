"""Runs of a task on booted nodes: the state is kept and restored from S3, completed runs are skipped, and two at once
are refused."""

from __future__ import annotations

import json
from pathlib import Path

from bed import Bed, wait_for

PROGRAMS = Path(__file__).parent / "programs"
ONE = ("--gpus-per-node", "1", "--launcher", "srun", "--preflight", "off", "--workdir", str(PROGRAMS))
TASK = ("--project", "lines", "--name", "small")


def test_a_completed_task_is_skipped_and_a_changed_one_continues_from_its_state(cluster: Bed, tmp_path: Path) -> None:
    few = ("--", "python", "descend.py", "3", "0")
    first = cluster.submit(*ONE, *TASK, "--follow", *few)
    assert first.exit_code == 0, first.told
    again = cluster.submit(*ONE, *TASK, "--follow", *few)
    assert (again.exit_code, again.last["skipped"], again.last["job_id"]) == (0, True, first.last["job_id"])
    assert "succeeded with the same code, inputs, packages and command; --force runs it again" in again.told
    more = cluster.submit(*ONE, *TASK, "--follow", "--", "python", "descend.py", "5", "0")
    assert any("begins at step 3" in line for line in more.log), more.log
    fetched = cluster.gpucluster("fetch", more.last["job_id"], "state", "--to", str(tmp_path / "state"))
    assert fetched.returncode == 0, fetched.stderr
    assert json.loads((tmp_path / "state" / "weights.json").read_text())[0] == 5


def test_two_runs_of_a_task_at_once_are_refused(cluster: Bed) -> None:
    endless = ("--", "python", "descend.py", "100000", "1")
    running = cluster.submit(*ONE, "--project", "lines", "--name", "endless", *endless).last["job_id"]
    refused = cluster.gpucluster("submit", *ONE, "--project", "lines", "--name", "endless", "--force", *endless)
    assert refused.returncode == 2
    assert f"job {running} of the task lines/endless has not ended" in refused.stderr
    assert cluster.gpucluster("cancel", running).returncode == 0
    wait_for("Slurm forgets it", lambda: not cluster.ssh("squeue", "--noheader", f"--jobs={running}").strip(), 60)


def test_the_state_is_restored_from_s3(storage: Bed) -> None:
    """The jobs' role copies it, and the cluster no longer has the state."""
    to = ("--partition", "train", "--state", "s3://storage-tests/jobs/states")
    words = (*ONE, *to, "--project", "lines", "--name", "far")
    first = storage.submit(*words, "--follow", "--", "python3", "descend.py", "3", "0")
    assert first.exit_code == 0, first.told
    place = "s3://storage-tests/jobs/states/lines/far"
    assert first.result["state"] == {"s3": place, "files": 1, "problem": None}, first.log
    storage.ssh("rm", "-r", "/home/ubuntu/tasks/lines/far")
    more = storage.submit(*words, "--follow", "--", "python3", "descend.py", "5", "0")
    assert more.exit_code == 0, more.told
    assert f"[state] 1 files were restored from {place}" in more.log
    assert any("begins at step 3" in line for line in more.log), more.log
