"""What a user sees when something breaks: one clear message, the right exit code, no traceback."""

from __future__ import annotations

import subprocess
import sys

import pytest
from bed import ROOT, Bed, wait_for
from powered_off import powered_off_node


@pytest.fixture(scope="session")
def cluster(changing: Bed) -> Bed:
    """A separate cluster, not the one that most tests share."""
    return changing


def refused(done: subprocess.CompletedProcess[str], exit_code: int, *words: str) -> None:
    assert done.returncode == exit_code, done.stderr + done.stdout
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1, done.stderr
    for word in words:
        assert word in errors[0], done.stderr
    assert "Traceback" not in done.stderr + done.stdout


def test_a_failed_step_on_a_compute_node_is_shown_as_the_reason(cluster: Bed) -> None:
    node = powered_off_node(cluster)
    rule = cluster.localcloud(
        "fault", "add", "broken", "--command", "slurmd", "--message", "slurmd: fatal: no such luck",
        "--tag", "gpucluster:role=compute", "--count", "1",
    )  # fmt: skip
    assert rule.returncode == 0, rule.stderr
    job = cluster.submit(f"--sbatch-args=--nodelist={node}", "--launcher", "srun", "--", "true")
    job_id = job.last["job_id"]
    try:
        reason = wait_for("the reason", lambda: _reason(cluster, node, "step=packages"), 120)
        assert "line=" in reason
        assert "step=packages" in cluster.gpucluster("status").stdout
        wait_for("the job, pending again", lambda: "PD" in cluster.ssh("squeue", "-h", "-o", "%t", "-j", job_id), 30)
    finally:
        cluster.gpucluster("cancel", job_id)
        cluster.localcloud("fault", "clear")


def _reason(cluster: Bed, node: str, word: str) -> str:
    lines = cluster.ssh("sinfo", "-R", "-h", "-n", node, "-o", "%200E").splitlines()
    return next((line for line in lines if word in line), "")


def test_a_port_in_use_is_reported(empty_cloud: Bed, tmp_path: object) -> None:
    other = [sys.executable, "-m", "localcloud", "up", "--name", f"{empty_cloud.name}-b", "--port"]
    done = subprocess.run(
        [*other, str(empty_cloud.port)], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    refused(done, 2, str(empty_cloud.port))
