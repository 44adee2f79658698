"""An elastic job loses a node and continues. The nodes are lost for later tests."""

from __future__ import annotations

import json

from bed import Bed, wait_for
from test_launchers import PROGRAMS

SUBJECTS = [
    "gpucluster/launchers/horovodrun.py",
    "gpucluster/launchers/launcher.py",
    "gpucluster*job/*",
    "gpucluster/job_keys.py",
    "templates/job/*",
    "gpucluster_train/*",
    "bootstrap/environments/torch*.txt",
    "tests/cluster/programs/horovod_elastic.py",
]
COVERED_BY = (
    "test_job_scripts.py: an elastic job's hosts and ends; a killed rank of horovodrun, booted, in "
    "test_jobs_together.py"
)


def lose_second_node(cluster: Bed, job_id: str) -> str:
    nodes = cluster.ssh("scontrol", "show", "hostnames", cluster.ssh("squeue", "-h", "-j", job_id, "-o", "%N").strip())
    lost = nodes.split()[1]
    (instance_id,) = (id_ for id_, each in cluster.instances("compute").items() if each["node"] == lost)
    cluster.client("ec2").terminate_instances(InstanceIds=[instance_id])
    return lost


def test_a_job_that_loses_a_node_while_its_ranks_start_starts_them_again(cluster: Bed) -> None:
    """The node is lost before any rank calls hvd.init(): the others abort there, and horovodrun ends."""
    job = cluster.submit(
        "--nodes", "2", "--gpus-per-node", "2", "--launcher", "horovodrun", "--min-nodes", "1", "--time", "10m",
        "--env", "LEFT=2", "--env", "HOROVOD_GLOO_TIMEOUT_SECONDS=8", "--workdir", str(PROGRAMS),
        "--", "bash", "-c", "echo is up; sleep 15; exec python horovod_elastic.py",
    )  # fmt: skip
    job_id, log = job.last["job_id"], f"{job.last['folder']}/log.txt"
    wait_for("four ranks", lambda: cluster.ssh("cat", log).count(" is up\n") == 4, 240)
    lost = lose_second_node(cluster, job_id)
    wait_for("the job's end", lambda: not cluster.ssh("squeue", "-h", "-j", job_id).strip(), 300)
    result, lines = json.loads(cluster.ssh("cat", f"{job.last['folder']}/result.json")), cluster.ssh("cat", log)
    assert (result["exit_code"], result["reason"]) == (0, None), lines
    assert f"[launcher] lost {lost}: the ranks start again on 1 node\n" in lines
    assert lines.count(" is up\n") == 6
    steps = [json.loads(line.split("] ", 1)[1]) for line in lines.splitlines() if "] {" in line]
    assert [step["step"] for step in steps] == [1, 2, 3, 4, 5] and {step["size"] for step in steps} == {2}


def test_horovodrun_continues_without_a_lost_node(cluster: Bed) -> None:
    """Every step's sum over the ranks is the number of ranks, and no step is lost or counted twice."""
    job = cluster.submit(
        "--nodes", "2", "--gpus-per-node", "2", "--launcher", "horovodrun", "--min-nodes", "1", "--time", "10m",
        "--env", "LEFT=2", "--env", "HOROVOD_GLOO_TIMEOUT_SECONDS=8", "--workdir", str(PROGRAMS),
        "--", "python", "horovod_elastic.py",
    )  # fmt: skip
    job_id, log = job.last["job_id"], f"{job.last['folder']}/log.txt"

    def steps() -> list[dict[str, object]]:
        lines = cluster.ssh("cat", log).splitlines()
        return [json.loads(line.split("] ", 1)[1]) for line in lines if "] {" in line]

    wait_for("steps with every rank", lambda: [step for step in steps() if step["size"] == 4][2:], 240)
    lose_second_node(cluster, job_id)
    wait_for("the job's end", lambda: not cluster.ssh("squeue", "-h", "-j", job_id).strip(), 240)
    result = json.loads(cluster.ssh("cat", f"{job.last['folder']}/result.json"))
    assert (result["exit_code"], result["reason"]) == (0, None), cluster.ssh("cat", log)
    assert {step["size"] for step in steps()} == {4, 2}
    assert all(step["total"] == step["size"] for step in steps())
    last = steps()[-1]
    assert last["size"] == 2
    assert last["weights"] == [-float(str(last["step"]))] * 5
