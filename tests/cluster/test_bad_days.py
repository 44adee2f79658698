"""What a user sees when something breaks: one clear message, the right exit code, no traceback."""

from __future__ import annotations

import subprocess
import sys

import pytest
from bed import ROOT, Bed, wait_for


@pytest.fixture(scope="session")
def cluster(changing: Bed) -> Bed:
    """Not the one that most tests share."""
    return changing


def refused(done: subprocess.CompletedProcess[str], exit_code: int, *words: str) -> None:
    assert done.returncode == exit_code, done.stderr + done.stdout
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1, done.stderr
    for word in words:
        assert word in errors[0], done.stderr
    assert "Traceback" not in done.stderr + done.stdout


def test_slurms_daemons_that_are_killed_start_again_and_the_queue_is_there(cluster: Bed) -> None:
    job_id = cluster.ssh("sbatch", "--parsable", "--hold", "--partition=train", "--output=/dev/null", "--wrap", "true")
    try:
        for unit in ("slurmdbd", "slurmctld"):
            before = cluster.ssh("systemctl", "show", "-P", "MainPID", unit)
            cluster.ssh("sudo", "systemctl", "kill", "--kill-whom=main", "--signal=KILL", unit)
            look = f"systemctl is-active --quiet {unit} && systemctl show -P MainPID {unit} || true"
            wait_for(unit, lambda look=look, before=before: cluster.ssh(look) not in ("", before), 30)
        ask = f"timeout 10 squeue --noheader --format=%i --jobs={job_id.strip()} || true"
        wait_for("the queue", lambda: cluster.ssh(ask) == job_id, 30)
    finally:
        cluster.ssh("scancel", job_id.strip())


def test_a_compute_step_that_fails_is_the_reason_that_the_user_reads(cluster: Bed) -> None:
    rule = cluster.localcloud(
        "fault", "add", "broken", "--command", "slurmd", "--message", "slurmd: fatal: no such luck",
        "--tag", "gpucluster:role=compute", "--count", "1",
    )  # fmt: skip
    assert rule.returncode == 0, rule.stderr
    job = cluster.submit("--sbatch-args=--nodelist=train-3", "--launcher", "srun", "--", "true")
    job_id = job.last["job_id"]
    try:
        reason = wait_for("the reason", lambda: _reason(cluster, "step=slurm"), 120)
        assert "line=" in reason
        assert "step=slurm" in cluster.gpucluster("status").stdout
        assert "PD" in cluster.ssh("squeue", "-h", "-o", "%t", "-j", job_id)
    finally:
        cluster.gpucluster("cancel", job_id)
        cluster.localcloud("fault", "clear")


def _reason(cluster: Bed, word: str) -> str:
    lines = cluster.ssh("sinfo", "-R", "-h", "-o", "%200E %n").splitlines()
    return next((line for line in lines if word in line), "")


def test_a_launch_that_ec2_refuses_is_the_reason_that_the_user_reads(cluster: Bed) -> None:
    laid = cluster.localcloud("fault", "add", "capacity", "--instance-type", "g5.12xlarge")
    assert laid.returncode == 0, laid.stderr
    job = cluster.submit("--sbatch-args=--nodelist=train-4", "--launcher", "srun", "--", "true")
    try:
        # The job may have to wait for its environment, which nodes that are up make meanwhile.
        wait_for("the reason", lambda: _reason(cluster, "InsufficientInstanceCapacity"), 240)
        assert "InsufficientInstanceCapacity" in cluster.gpucluster("status").stdout
        assert "InsufficientInstanceCapacity" in cluster.gpucluster("why", job.last["job_id"]).stdout
    finally:
        cluster.gpucluster("cancel", job.last["job_id"])
        cluster.localcloud("fault", "clear")


def test_a_port_in_use_is_said(empty_cloud: Bed, tmp_path: object) -> None:
    other = [sys.executable, "-m", "localcloud", "up", "--name", f"{empty_cloud.name}-b", "--port"]
    done = subprocess.run(
        [*other, str(empty_cloud.port)], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    refused(done, 2, str(empty_cloud.port))
