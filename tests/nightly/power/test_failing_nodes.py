"""A node that becomes faulty is replaced, and one that EC2 cannot launch yet is asked for again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from bed import Bed, wait_for
from beds import up_without_environments
from powered_off import powered_off_node
from test_preflight_cluster import JOB, wait_for_last_check

SUBJECTS = [
    "bootstrap/gpucluster_node/health/*",
    "bootstrap/gpucluster_node/power/*",
    "bootstrap/gpucluster_node/scripts.py",
    "bootstrap/gpucluster_node/slurm.py",
    "bootstrap/programs/*.d/*-health",
    "bootstrap/steps/jobs/health.sh",
    "templates/slurm/slurm.conf.j2",
]
COVERED_BY = (
    "test_node_health.py, test_node_failing.py, test_health_step.py, test_node_resume.py; a lost GPU and a boot that "
    "fails, booted, in test_preflight_cluster.py and test_bad_days.py"
)
LOG = "/var/log/slurm/slurmctld.log"
TWO_NODES = JOB[:-1]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    with up_without_environments(tmp_path_factory.mktemp("failing")) as bed:
        yield bed


@pytest.fixture(scope="module")
def nodes(plain: Bed) -> list[str]:
    """Two nodes that are up."""
    found: list[str] = plain.submit(*TWO_NODES, "--launcher", "srun", "--follow", "--", "true").result["node_list"]
    return found


def test_a_node_that_lost_a_gpu_is_replaced_and_its_job_runs_elsewhere(plain: Bed, nodes: list[str]) -> None:
    """Slurm's prolog finds it, on a node that is up. The job is not pinned to its first nodes."""
    ill = plain.instance_of(nodes[1])
    wait_for_last_check(plain, nodes[1])
    plain.fault("lost-gpu", nodes[1])
    job = plain.submit(*TWO_NODES, "--launcher", "srun", "--", "echo", "started")
    why = "health: nvidia-smi lists 3 of 4 GPUs"
    # Slurm's log: `sinfo` shows the reason only until the node is powered down.
    wait_for("the reason", lambda: f"node {nodes[1]} reason set to: {why}" in plain.ssh("sudo", "cat", LOG), 60)
    explained = wait_for(
        "why", lambda: _line(plain.gpucluster("why", job.last["job_id"]).stdout, f"{nodes[1]} failed"), 60
    )
    assert "is replaced" in explained and explained.endswith(why), explained
    followed = plain.gpucluster("logs", "-f", job.last["job_id"], timeout_s=300)
    assert followed.returncode == 0, followed.stderr
    assert "started" in followed.stdout
    wait_for("the old instance's end", lambda: ill not in plain.instances("compute"), 60)
    wait_for("the node", lambda: "drain" not in plain.ssh("sinfo", "-h", "-n", nodes[1], "-o", "%T"), 120)
    watch = "systemctl show --property=ActiveState,NRestarts gpucluster-health-watch"
    assert plain.ssh("ssh", nodes[0], watch).split() == ["NRestarts=0", "ActiveState=active"]
    done = plain.gpucluster("doctor", "--node", nodes[0])
    assert done.returncode == 0, done.stderr + done.stdout
    assert f"{nodes[0]} passes the checks of its jobs" in done.stdout and "diagnostics could not run" in done.stdout


def _line(text: str, words: str) -> str:
    return next((line for line in text.splitlines() if words in line), "")


def test_missing_capacity_is_shown_while_a_job_waits_and_the_launch_is_retried(plain: Bed) -> None:
    node = powered_off_node(plain)
    laid = plain.localcloud("fault", "add", "capacity", "--instance-type", "g5.12xlarge")
    assert laid.returncode == 0, laid.stderr
    job = plain.submit(f"--sbatch-args=--nodelist={node}", "--launcher", "srun", "--", "true")
    try:
        why = wait_for("the reason", lambda: _cause(plain.gpucluster("why", job.last["job_id"]).stdout), 120)
        assert f"EC2 has not launched {node} yet: InsufficientInstanceCapacity" in why
        assert "the head node retries every 15 s" in why
        assert "InsufficientInstanceCapacity" in plain.gpucluster("status").stdout
        assert "InsufficientInstanceCapacity" in plain.gpucluster("jobs").stdout
        plain.localcloud("fault", "clear")
        followed = plain.gpucluster("logs", "-f", job.last["job_id"], timeout_s=240)
        assert followed.returncode == 0, followed.stderr
    finally:
        plain.gpucluster("cancel", job.last["job_id"])
        plain.localcloud("fault", "clear")


def _cause(text: str) -> str:
    return text if "InsufficientInstanceCapacity" in text else ""
