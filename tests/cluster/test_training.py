"""Jobs on the session's cluster, from an empty partition to an accuracy."""

from __future__ import annotations

import json
import time
from datetime import datetime

import pytest
from bed import Bed, Submitted, interrupt, wait_for

from localcloud.testing.patience import stretched

ACCURACY = 0.95


def epochs(program: str) -> tuple[str, ...]:
    """Fewer than in the example, but enough: each epoch costs every rank half a second of CPU time."""
    return ("--", "python", program, "--epochs", "8")


def accuracy(job: Submitted) -> float:
    reports = [line.partition("] ")[2] for line in job.log if line.startswith("[0 ")]
    return float(json.loads([report for report in reports if report.startswith('{"accuracy"')][-1])["accuracy"])


def node_instances(cluster: Bed, nodes: list[str]) -> set[str]:
    return {id_ for id_, each in cluster.instances("compute").items() if each["node"] in nodes}


@pytest.fixture(scope="session")
def horovod(cluster: Bed) -> tuple[float, Submitted]:
    """The first job, for a partition without a node: its submission time and its result."""
    assert not cluster.instances("compute")
    began = time.time()
    return began, cluster.submit("examples/digits/job-horovod.yaml", "--follow", *epochs("train_horovod.py"))


def test_horovodrun_trains_on_nodes_that_are_launched_for_it(cluster: Bed, horovod: tuple[float, Submitted]) -> None:
    _, job = horovod
    assert job.exit_code == 0, job.told
    assert job.result["world_size"] == 4
    assert accuracy(job) >= ACCURACY
    assert {line.split("]")[0] for line in job.log if " of 4 on " in line} == {
        "[0 train-1", "[1 train-1", "[2 train-2", "[3 train-2",
    }  # fmt: skip


def test_the_nodes_of_a_job_are_the_instances_that_the_head_node_launched_for_it(
    cluster: Bed, horovod: tuple[float, Submitted]
) -> None:
    began, job = horovod
    launched = cluster.launched_since(began)
    assert launched == node_instances(cluster, job.result["node_list"])
    assert len(launched) == 2
    (head,) = cluster.instances("head")
    callers = {call["caller"] for call in cluster.ask(f"calls?since={began}") if call["action"] == "RunInstances"}
    assert callers <= {head}
    for node in job.result["node_list"]:
        assert "status: done" in cluster.ssh("ssh", node, "cloud-init", "status")
        instance_id = cluster.ssh("ssh", node, "sudo", "cloud-init", "query", "instance_id").strip()
        assert instance_id in launched
        assert instance_id in cluster.ssh("scontrol", "show", "node", node)


def test_accounting_knows_the_job_and_its_gpus(cluster: Bed, horovod: tuple[float, Submitted]) -> None:
    _, job = horovod
    fields = "--format=JobID,State,AllocTRES%200"

    def accounts() -> list[list[str]]:
        shown = cluster.ssh("sacct", "-X", "-n", "-P", "-j", job.last["job_id"], fields)
        return [line.split("|") for line in shown.splitlines()]

    ((job_id, state, allocated),) = wait_for("the account", lambda: accounts()[:1], 30)
    assert (job_id, state) == (job.last["job_id"], "COMPLETED")
    assert {"gres/gpu=8", "node=2"} <= set(allocated.split(","))  # two g5.12xlarge


def test_torchrun_trains_on_the_nodes_that_are_up(cluster: Bed, horovod: tuple[float, Submitted]) -> None:
    began = time.time()
    job = cluster.submit("examples/digits/job-torchrun.yaml", "--follow", *epochs("train_ddp.py"))
    assert job.exit_code == 0, job.told
    assert job.result["world_size"] == 4
    assert accuracy(job) >= ACCURACY
    assert not cluster.launched_since(began)


def test_the_log_can_be_read_after_the_job_and_status_shows_it(cluster: Bed, horovod: tuple[float, Submitted]) -> None:
    _, job = horovod
    done = cluster.gpucluster("logs", job.last["job_id"])
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == job.log
    assert job.last["job_id"] in cluster.gpucluster("jobs").stdout


def test_logs_of_boots_slurm_and_jobs_are_in_cloudwatch(cluster: Bed, horovod: tuple[float, Submitted]) -> None:
    _, job = horovod
    logs = cluster.client("logs")

    def lines(log: str, stream_ends: str) -> list[str]:
        group = f"/gpucluster/GpuCluster/{log}"
        streams = [each["logStreamName"] for each in logs.describe_log_streams(logGroupName=group)["logStreams"]]
        (stream,) = [name for name in streams if name.endswith(stream_ends)] or [None]
        if stream is None:
            return []
        events = logs.get_log_events(logGroupName=group, logStreamName=stream, startFromHead=True)["events"]
        return [event["message"] for event in events]

    def shipped() -> list[str]:
        return [line for line in lines("jobs", f"_{job.last['job_id']}.txt") if line]

    # The head links new jobs once a minute.
    wait_for("the job's log", lambda: shipped() == [line for line in job.log if line], 120)
    for node in job.result["node_list"]:
        assert any("step=slurm_compute status=ok" in line for line in lines("boot", f"/{node}"))
        assert lines("slurmd", f"/{node}")
    assert any("step=ready status=ok" in line for line in lines("boot", "/head"))
    assert any("wanted by job" in line for line in lines("power", "/head"))
    assert lines("slurmctld", "/head")


def test_the_cluster_and_its_nodes_are_measured(cluster: Bed, horovod: tuple[float, Submitted]) -> None:
    def measured() -> set[tuple[str, ...]]:
        pages = cluster.client("cloudwatch").get_paginator("list_metrics").paginate()
        return {
            (each["Namespace"], each["MetricName"], *(pair["Value"] for pair in each["Dimensions"]))
            for page in pages
            for each in page["Metrics"]
        }

    wanted = {
        ("GpuCluster", "Heartbeat", "GpuCluster"),
        ("GpuCluster", "UsdPerHour", "GpuCluster", "train"),
        ("GpuCluster/GpuCluster", "disk_used_percent", "head", "/home"),
        *(("GpuCluster/GpuCluster", "mem_used_percent", node) for node in ("head", "train-1", "train-2")),
    }
    wait_for("its metrics", lambda: wanted <= measured(), 90)
    states = {each[4] for each in measured() if each[:4] == ("GpuCluster", "NodesByState", "GpuCluster", "train")}
    assert states & {"busy", "idle"}


def processes(cluster: Bed, node: str, pattern: str) -> str:
    """Processes and their command lines; the pattern must not match itself."""
    return cluster.ssh("ssh", node, f"pgrep -af '{pattern}' || true").strip()


@pytest.mark.parametrize("launcher", ["torchrun", "horovodrun"])  # srun: a killed rank in test_jobs_together.py
def test_a_failing_rank_ends_the_job_and_is_named(
    cluster: Bed, horovod: tuple[float, Submitted], launcher: str
) -> None:
    code = (
        "import os, time\n"
        "rank = int(os.environ.get('RANK') or os.environ.get('HOROVOD_RANK'))\n"
        "if rank == 1: raise ValueError('bad seed')\n"
        "time.sleep(3000)\n"
    )
    job = cluster.submit(
        "--nodes", "2", "--gpus-per-node", "2", "--launcher", launcher, "--follow", "--", "python", "-c", code
    )
    assert job.exit_code == 4, job.told
    started, ended = (datetime.fromisoformat(job.result[key]) for key in ("started_at", "ended_at"))
    assert (ended - started).total_seconds() <= stretched(30)
    assert (job.result["exit_code"], job.result["failed_rank"], job.result["failed_node"]) == (1, 1, "train-1")
    assert "rank 1 on train-1 exited with code 1: ValueError: bad seed" in job.told
    assert "Traceback" not in job.told
    for node in ("train-1", "train-2"):
        wait_for("no process left", lambda node=node: not processes(cluster, node, "[t]ime.sleep.300"), 15)


def test_ctrl_c_ends_following_and_the_job_continues(cluster: Bed, horovod: tuple[float, Submitted]) -> None:
    program = ["bash", "-c", "for i in $(seq 15); do echo tick $i; sleep 1; done; echo finished"]
    job = cluster.submit("--nodes", "1", "--gpus-per-node", "1", "--launcher", "srun", "--", *program)
    job_id = job.last["job_id"]
    process = cluster.start("logs", "-f", job_id)
    assert process.stdout is not None
    while "tick" not in (line := process.stdout.readline()):
        assert line, "the log ended before the job said anything"
    interrupt(process)
    said = process.communicate(timeout=20)[0]
    assert "continues" in said, said
    assert "Traceback" not in said
    assert process.returncode == 0
    wait_for("the job's end", lambda: "finished" in cluster.gpucluster("logs", job_id).stdout, 60)


def test_a_cancelled_job_leaves_no_process(cluster: Bed, horovod: tuple[float, Submitted]) -> None:
    job = cluster.submit("--nodes", "2", "--gpus-per-node", "1", "--launcher", "srun", "--", "sleep", "300")
    job_id = job.last["job_id"]
    wait_for("the job's start", lambda: "R" in cluster.ssh("squeue", "-h", "-o", "%t", "-j", job_id), 60)
    assert cluster.gpucluster("cancel", job_id).returncode == 0
    wait_for("its end", lambda: not cluster.ssh("squeue", "-h", "-t", "R,CG", "-o", "%t"), 60)
    wait_for("no process left", lambda: not processes(cluster, "train-1", "[s]leep 300"), 15)
