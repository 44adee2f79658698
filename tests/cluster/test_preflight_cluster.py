"""The preflight on booted nodes: real Slurm, NFS and network, and a faulty node, which is drained and replaced."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from bed import Bed, Submitted, wait_for

CHECKS = "/opt/gpucluster/prolog.d/15-health /opt/gpucluster/epilog.d/85-health"
JOB = ("--nodes", "2", "--gpus-per-node", "4", "--ntasks-per-node", "1", "--follow")


@pytest.fixture(scope="session")
def cluster(changing: Bed) -> Bed:
    """A separate cluster, not the one that most tests share."""
    return changing


@contextmanager
def lost(cluster: Bed, part: str, node: str) -> Iterator[None]:
    """The node's instance has less than its type, and Slurm's own checks do not see it. The instance must be replaced
    inside."""
    cluster.ssh("ssh", node, f"sudo chmod a-x {CHECKS}")
    wait_for_last_check(cluster, node)
    fault = cluster.fault(f"lost-{part}", node)
    try:
        yield
    finally:
        cluster.localcloud("fault", "clear", fault)


def wait_for_last_check(cluster: Bed, node: str) -> None:
    """The check after the last job runs on when the job has ended. It must not see what a test changes for the next."""
    wait_for("the last epilog", lambda: cluster.ssh("sinfo", "-h", "-n", node, "-o", "%t").strip() == "idle", 60)
    check = "systemctl is-active gpucluster-health || :"
    wait_for("the last check", lambda: cluster.ssh("ssh", node, check).strip() in ("inactive", "failed"), 60)


@pytest.fixture(scope="module")
def nodes(cluster: Bed) -> list[str]:
    """Two nodes that are up."""
    job = cluster.submit(*JOB, "--launcher", "srun", "--", "true", timeout_s=400)
    assert job.exit_code == 0, job.told
    assert (job.result["preflight"]["errors"], job.result["preflight"]["warnings"]) == ([], [])
    found: list[str] = job.result["node_list"]
    return found


def submit(cluster: Bed, nodes: list[str], *arguments: str) -> Submitted:
    """One of the nodes may have to boot."""
    return cluster.submit(*JOB, f"--sbatch-args=--nodelist={','.join(nodes)}", *arguments, timeout_s=400)


def succeeded(job: Submitted, nodes: int) -> dict[str, Any]:
    assert job.exit_code == 0, job.told + "\n".join(job.log)
    assert sum(line.endswith("] started") for line in job.log) == nodes
    preflight: dict[str, Any] = job.result["preflight"]
    assert (preflight["errors"], preflight["warnings"]) == ([], []), preflight
    assert preflight["measured"]["framework"]["ranks"] == nodes
    assert any(
        line.startswith(f"[preflight] {nodes} nodes, 4 GPUs each, 1 EFA interface each, clocks within ")
        for line in job.log
    ), job.log
    return preflight


def test_healthy_nodes_run_the_job_and_a_real_all_reduce(cluster: Bed, nodes: list[str]) -> None:
    job = submit(cluster, nodes, "--launcher", "horovodrun", "--preflight", "full", "--", "echo", "started")
    succeeded(job, 2)


def reasons(cluster: Bed, node: str) -> list[str]:
    """In Slurm's log: `sinfo` shows a reason only until the node is powered down."""
    mark, log = f"node {node} reason set to: ", cluster.ssh("sudo", "cat", "/var/log/slurm/slurmctld.log")
    return [line.partition(mark)[2] for line in log.splitlines() if mark in line]


def test_a_node_that_lost_a_gpu_is_replaced_and_its_job_runs_again(cluster: Bed, nodes: list[str]) -> None:
    """The job asks for this node, so it waits for the node's next instance."""
    ill = cluster.instance_of(nodes[1])
    with lost(cluster, "gpu", nodes[1]):
        job = submit(cluster, nodes, "--launcher", "srun", "--", "echo", "started")
    assert job.exit_code == 0, job.told + "\n".join(job.log)
    why = f"{nodes[1]} has 3 of the 4 GPUs that the job asks for"
    started = [at for at, line in enumerate(job.log) if line.endswith("] started")]
    assert len(started) == 2 and min(started) > job.log.index(f"error: {why}"), job.log
    assert f"health: preflight of job {job.last['job_id']}: {why}" in reasons(cluster, nodes[1])
    assert cluster.instance_of(nodes[1]) != ill


def test_a_job_that_requires_efa_does_not_start_without_it(cluster: Bed, nodes: list[str]) -> None:
    options = ("--launcher", "srun", "--efa", "required", "--no-requeue")
    with lost(cluster, "efa", nodes[0]):
        job = submit(cluster, nodes, *options, "--", "echo", "started")
    assert job.exit_code == 4, job.told
    assert job.result["failed_node"] == nodes[0]
    assert "efa: required" in job.result["reason"]
    assert not [line for line in job.log if line.endswith("] started")]
    assert "[launcher] the job was submitted with --no-requeue: no further run follows" in job.log
    assert f"health: preflight of job {job.last['job_id']}: {job.result['reason']}" in reasons(cluster, nodes[0])
