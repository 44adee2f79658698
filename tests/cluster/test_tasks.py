"""Runs of a task on booted nodes: the state is kept and restored from S3, completed runs are skipped, and two at once
are refused."""

from __future__ import annotations

import json
from pathlib import Path

from bed import Bed, wait_for

from gpucluster.config import load

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
    wait_for("top shows its node", lambda: node_in_top(cluster, running), 120)
    refused = cluster.gpucluster("submit", *ONE, "--project", "lines", "--name", "endless", "--force", *endless)
    assert refused.returncode == 2
    assert f"job {running} of the task lines/endless has not ended" in refused.stderr
    assert cluster.gpucluster("cancel", running).returncode == 0
    wait_for("Slurm forgets it", lambda: not cluster.ssh("squeue", "--noheader", f"--jobs={running}").strip(), 60)


def node_in_top(cluster: Bed, job_id: str) -> bool:
    """Whether it has the job's node with its type, and the job with its user and its price."""
    seen = json.loads(cluster.gpucluster("top", "--json").stdout)
    nodes = [node for node in seen["nodes"] if job_id in node["job_ids"] and node["instance_type"]]
    jobs = [job for job in seen["jobs"] if job["job_id"] == job_id and job["state"] == "RUNNING"]
    if not nodes or not jobs:
        return False
    assert (nodes[0]["partition"], jobs[0]["user"], jobs[0]["name"]) == ("train", "ubuntu", "endless")
    assert seen["usd_per_hour"] >= jobs[0]["usd_per_hour"] > 0
    return True


def test_event_files_are_copied_to_the_clusters_bucket(storage: Bed) -> None:
    """The jobs' role writes them, below the first prefix of `s3_access` that it may write."""
    write = "mkdir $GPUCLUSTER_TENSORBOARD && echo loss >$GPUCLUSTER_TENSORBOARD/events.out.tfevents.1.train-1.7.0"
    words = (*ONE, "--partition", "train", "--project", "lines", "--name", "curve", "--follow")
    job = storage.submit(*words, "--", "bash", "-c", write)
    assert job.exit_code == 0, job.told
    written = job.result["tensorboard"]
    assert (written["files"], written["problem"]) == (1, None), job.log
    folder = f"jobs/tensorboard/{load(storage.config).name}/lines/curve"
    assert written["s3"] == f"s3://storage-tests/{folder}"
    key = f"{folder}/events.out.tfevents.1.train-1.7.0"
    assert storage.client("s3").get_object(Bucket="storage-tests", Key=key)["Body"].read() == b"loss\n"


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
