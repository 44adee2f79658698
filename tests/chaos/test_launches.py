"""Rows of the chaos table: faults while nodes are launched."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest
from bed import Bed, wait_for
from rows import Job, Row, counting, states

pytestmark = pytest.mark.partitions("either", "many")
FIRST, SECOND, MANY = "g5.24xlarge", "g6.24xlarge", "g4dn.xlarge"
"""The types of `either`, and that of `many`."""


def power_off(row: Row) -> None:
    """All nodes of the row's partitions, which have no jobs. Their instances end."""
    if idle := [node for node, state in states(row).items() if state == "idle"]:
        row.bed.ssh("sudo", "scontrol", "update", f"nodename={','.join(idle)}", "state=power_down_force")
    wait_for("all nodes to be off", lambda: set(states(row).values()) == {"idle~"}, 180)
    wait_for("no instance", lambda: not instances(row), 60)


def instances(row: Row) -> list[str]:
    """Those of the types of the row's partitions."""
    return [id_ for id_, each in row.bed.instances("compute").items() if each["instance_type"] in (FIRST, SECOND, MANY)]


def types(bed: Bed, nodes: Sequence[str]) -> set[str]:
    all_ = bed.instances("compute").values()
    return {each["instance_type"] for each in all_ if each["node"] in nodes}


def submit(row: Row, partition: str, nodes: int, seconds: int = 5) -> Job:
    words = ("--partition", partition, "--nodes", str(nodes))
    return row.submit(*words, "--", *counting(seconds), follow=True)


def no_capacity(row: Row, *options: str) -> None:
    for each in (FIRST, SECOND):
        row.fault_add("capacity", "--instance-type", each, *options)


def launched_since(row: Row, since: float) -> int:
    """How many instances of the types of `either` were launched."""
    type_of = {each["instance_id"]: each["instance_type"] for each in row.bed.ask("status")["instances"]}
    return sum(type_of.get(each) in (FIRST, SECOND) for each in row.bed.launched_since(since))


@pytest.mark.fault("EC2 has no capacity for the partition's first instance type")
def test_the_first_type_has_no_capacity(row: Row) -> None:
    power_off(row)
    row.fault_add("capacity", "--instance-type", FIRST)
    row.begins()
    job = submit(row, "either", 2)
    wait_for("the job to run", lambda: job.state == "RUNNING", 300)
    assert types(row.bed, job.nodes) == {SECOND}
    row.ends("both nodes are of the second type")
    job.completes()
    row.sees_nothing(job)


@pytest.mark.fault("EC2 has no capacity for any type for three minutes")
def test_no_capacity_for_three_minutes(row: Row) -> None:
    power_off(row)
    no_capacity(row)
    row.begins()
    job = submit(row, "either", 2)
    row.follows(job, "InsufficientInstanceCapacity")
    row.why(job, "InsufficientInstanceCapacity")
    time.sleep(180)
    assert not job.nodes or not instances(row)
    back = time.time()
    row.clear()
    wait_for("the launch", lambda: launched_since(row, back) == 2, 20)
    row.ends(f"launched {time.time() - back:.0f} s after EC2 had capacity again; the job kept its place")
    job.completes()


@pytest.mark.fault("EC2 has no capacity while 6 single-node jobs are submitted one after another")
def test_jobs_one_after_another_without_capacity(row: Row) -> None:
    power_off(row)
    no_capacity(row)
    row.begins()
    jobs = []
    for number in range(1, 7):
        jobs.append(row.submit("--partition", "either", "--nodes", "1", "--", *counting(5)))
        wait_for("its node", lambda wanted=number: list(states(row).values()).count("alloc#") == wanted, 30)
    row.why(jobs[-1], "InsufficientInstanceCapacity")
    programs = row.bed.ssh("pgrep", "--full", "--count", "python3 -m gpucluster_node.power")
    assert int(programs) == 1, "each would take 47 MiB of the head node's memory"
    row.clear()
    for job in jobs:
        job.completes()
    row.ends("one program launches the nodes of all of them")


@pytest.mark.fault("EC2 has capacity for 3 of a job's 8 nodes")
def test_a_job_with_too_little_capacity(row: Row) -> None:
    power_off(row)
    no_capacity(row, "--value", "3")
    row.begins()
    job = submit(row, "either", 8)
    row.follows(job, "InsufficientInstanceCapacity")
    assert not instances(row), "nobody pays for nodes that wait for others"
    row.clear()
    job.completes()
    assert job.log.count("started") == 8
    row.ends("no node is launched until there is capacity for all 8")


@pytest.mark.fault("EC2 launches 3 of 8 nodes for single-node jobs, and then has no capacity")
def test_capacity_ends_after_three_nodes(row: Row) -> None:
    power_off(row)
    row.fault_add("capacity", "--instance-type", FIRST, "--value", "3")
    row.fault_add("capacity", "--instance-type", SECOND)
    row.begins()
    words = ("--partition", "either", "--nodes", "1", "--sweep", "i=1..8", "--max-parallel", "8")
    sweep = row.submit(*words, "--", *counting(40))
    row.why(sweep, "InsufficientInstanceCapacity")
    assert len(instances(row)) == 3
    running = f"squeue -h -r -j {sweep.id} -t RUNNING -o %i"
    wait_for("3 running elements", lambda: len(row.bed.ssh("sh", "-c", running).split()) == 3, 120)
    row.clear()
    wait_for("the end of the sweep", lambda: not row.bed.ssh("squeue", "-h", "-j", sweep.id).strip(), 300)
    ended = row.bed.ssh("squeue", "-h", "-r", "-t", "all", "-j", sweep.id, "-o", "%T").split()
    assert ended == ["COMPLETED"] * 8
    row.ends("3 elements run at once, the others as soon as there is capacity")


@pytest.mark.fault("EC2 accepts one launch and one tag a second")
def test_throttling(row: Row) -> None:
    power_off(row)
    for action in ("RunInstances", "CreateTags"):
        row.fault_add("throttle", "--action", action, "--value", "1")
    row.begins()
    began = time.time()
    jobs = [submit(row, "either", 2) for _ in range(3)]
    for job in jobs:
        job.completes()
    throttled = [call for call in row.bed.ask(f"calls?since={began}") if call["error"] == "RequestLimitExceeded"]
    assert throttled
    row.ends(f"{len(throttled)} calls are repeated; 6 nodes run 3 jobs")
    row.sees_nothing(*jobs)


@pytest.mark.fault("Slurm calls ResumeProgram twice for the same nodes")
def test_the_same_resume_twice(row: Row) -> None:
    power_off(row)
    row.fault_add("throttle", "--action", "RunInstances")
    row.begins()
    began = time.time()
    job = submit(row, "either", 2)
    row.follows(job, "RequestLimitExceeded")
    row.bed.ssh("sudo", "-u", "slurm", "/opt/gpucluster/bin/resume", ",".join(job.nodes))
    time.sleep(3)
    row.clear()
    job.completes()
    assert launched_since(row, began) == 2
    row.ends("one instance for each node")


@pytest.mark.fault("a job of 16 nodes, all powered off")
def test_sixteen_nodes_at_once(row: Row) -> None:
    power_off(row)
    row.begins()
    job = submit(row, "many", 16)
    wait_for("the job to run", lambda: job.state == "RUNNING", 600)
    row.saw = "nothing"
    row.ends("all 16 join, and are gone afterwards")
    job.completes()
    assert job.log.count("started") == 16
    power_off(row)


@pytest.mark.fault("a job is cancelled while its launch waits for EC2")
def test_a_launch_that_is_cancelled(row: Row) -> None:
    power_off(row)
    node = "either-8"
    row.fault_add("throttle", "--action", "RunInstances")
    job = row.submit(f"--sbatch-args=--nodelist={node}", "--", *counting(1), follow=True)
    row.follows(job, f"EC2 has not launched {node} yet: RequestLimitExceeded")
    row.begins()
    cancelled = time.time()
    assert row.bed.gpucluster("cancel", job.id).returncode == 0
    assert job.ends() == "CANCELLED"
    assert row.why(job, f"job {job.id} ").endswith("was cancelled"), row.saw
    row.clear()
    wait_for(f"{node} to be off", lambda: states(row)[node] == "idle~", 300)
    assert launched_since(row, cancelled) == 0
    row.ends("the launch ends, and no instance remains")
