"""Deploying again, and running a role again, on a cluster of the session. test_replaced_nodes.py is nightly."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import pytest
from bed import Bed, Submitted, wait_for

from localcloud.testing.patience import stretched

UNTIL_FILE = ["bash", "-c", "echo runs; until [ -e $GPUCLUSTER_JOB_DIR/go-on ]; do sleep 1; done; echo same process $$"]
ANOTHER_IMAGE = "ami-785db401"
"""Another image of the local cloud, which boots the same root file system."""

# Every file that a role could write, with its hash and its time; not the logs, nor what Slurm, its database and our own
# daemons keep. Of the jobs' environments, which are gigabytes, the time alone.
_FILES = """
files() {
    find /etc /opt/gpucluster /home/gpucluster /home/ubuntu/.ssh /var/spool/cron /usr/local -xdev -type f \
        -not -path '*/slurm-state/*' -not -path '*/mysql/*' -not -name '*.pyc' \
        -not -path '/home/gpucluster/job-logs/*' -not -path '/home/gpucluster/prometheus/*' \
        -not -name spending.json -not -name 'nodes*.json*' "$@"
}
(files -printf '%p %T@ %s %m %U:%G\\n'; files -not -path '/home/gpucluster/envs/*' -exec sha256sum {} +) | sort
"""
# The start time of each service, except those of timers, of sessions and their clean-up, and of the check after a job.
_SERVICES = """
systemctl list-units --type=service --state=active --no-legend --plain | awk '{print $1}' |
    grep -Ev '^(gpucluster-(update|power|health[.])|user|session|systemd-(tmpfiles|hostnamed|timedated))' | sort |
    xargs -n 1 systemctl show -p Id,ActiveEnterTimestampMonotonic,MainPID
"""


@pytest.fixture(scope="session")
def cluster(changing: Bed) -> Bed:
    """A separate cluster, not the one that most tests share."""
    return changing


def test_a_second_run_of_a_role_changes_nothing(cluster: Bed) -> None:
    job = cluster.submit("--nodes", "1", "--launcher", "srun", "--follow", "--", "true")
    (node,) = job.result["node_list"]
    for role, where in (("head", []), ("compute", ["ssh", node])):
        look = [*where, "sudo", "bash", "-s"]
        before = _said(cluster, look, _FILES + _SERVICES)
        log = _said(cluster, look, f"bash /opt/gpucluster/bundle/{role}.sh 2>&1")
        assert "status=failed" not in log
        assert _said(cluster, look, _FILES + _SERVICES) == before
        assert len(before.splitlines()) > 100


def _said(cluster: Bed, shell: list[str], script: str) -> str:
    import base64

    text = base64.b64encode(script.encode()).decode()
    return cluster.ssh("sh", "-c", f"echo {text} | base64 -d | {' '.join(shell)}")


@contextmanager
def running_job(cluster: Bed, partition: str = "train") -> Iterator[Submitted]:
    """A job that runs during the body as one process, and completes after it."""
    job = cluster.submit("--partition", partition, "--nodes", "1", "--launcher", "srun", "--", *UNTIL_FILE)
    job_id = job.last["job_id"]
    wait_for("the job's start", lambda: cluster.ssh("squeue", "-h", "-o", "%t", "-j", job_id).strip() == "R", 120)
    log = ("sh", "-c", f"cat {job.last['folder']}/log.txt")  # Slurm says R before the node has got the job
    wait_for("the job's program", lambda: "runs" in cluster.ssh(*log), 120)
    started = shown(cluster, job_id)["StartTime"]
    yield job
    same = {"JobState": "RUNNING", "StartTime": started, "Restarts": "0"}
    assert {name: value for name, value in shown(cluster, job_id).items() if name in same} == same
    let_end(cluster, job)


def let_end(cluster: Bed, job: Submitted) -> None:
    cluster.ssh("touch", f"{job.last['folder']}/go-on")
    # The job leaves its result after its program's last line.
    read = ("sh", "-c", f"cat {job.last['folder']}/result.json 2>/dev/null || :")
    result = wait_for("the job's result", lambda: cluster.ssh(*read), 60)
    assert json.loads(result)["exit_code"] == 0
    assert "same process" in cluster.ssh("cat", f"{job.last['folder']}/log.txt")
    wait_for("its epilog", lambda: shown(cluster, job.last["job_id"])["JobState"] == "COMPLETED", 60)


def shown(cluster: Bed, job_id: str) -> dict[str, str]:
    words = cluster.ssh("scontrol", "show", "job", job_id).split()
    return dict(word.split("=", 1) for word in words if "=" in word)


def rewrite(cluster: Bed, old: str, new: str) -> None:
    text = cluster.config.read_text()
    assert old in text, text
    cluster.config.write_text(text.replace(old, new, 1))


def node_names(cluster: Bed) -> list[str]:
    return cluster.ssh("scontrol", "show", "hostnames", cluster.ssh("sinfo", "-h", "-o", "%N").strip()).split()


def instance_of(cluster: Bed, node: str) -> dict[str, Any] | None:
    found = [each for each in cluster.instances("compute").values() if each["node"] == node]
    return found[0] if found else None


SMALL = "  - {name: small, instance_types: [m6i.large], max_nodes: 2}\n"
NO_ACCOUNTS = 'accounting: "off"\n'
WATCHED = """
network: {ssh_from: [192.0.2.0/24]}
monitoring: {log_days: 30, dashboard: false}
budget: {monthly_usd: 90000}
s3_access: [{uri: "s3://my-bucket/data"}]
storage: [{mount: /later, type: efs, on_delete: delete}]
"""


def change_slurm(cluster: Bed) -> set[str]:
    rewrite(cluster, "max_nodes: 4", "max_nodes: 6")
    rewrite(cluster, "idle_minutes: 10", "idle_minutes: 8")
    cluster.config.write_text(cluster.config.read_text().rstrip("\n") + "\n" + SMALL + NO_ACCOUNTS)
    return {"partitions[train].max_nodes", "partitions[train].idle_minutes", "partitions[small]", "accounting"}


def change_what_is_around(cluster: Bed) -> set[str]:
    rewrite(cluster, "max_nodes: 6", "max_nodes: 4")
    rewrite(cluster, "volume_gib: 50", "volume_gib: 60\n  snapshot_days: 3")
    cluster.client("s3").create_bucket(Bucket="my-bucket")
    rewrite(cluster, NO_ACCOUNTS, WATCHED)
    watched = {
        "accounting",
        "network.ssh_from",
        "monitoring.log_days",
        "monitoring.dashboard",
        "budget",
        "s3_access[s3://my-bucket/data]",
        "storage[/later]",
    }
    return watched | {"partitions[train].max_nodes", "head_node.volume_gib", "head_node.snapshot_days"}


def test_a_running_job_does_not_notice_changes_in_place(cluster: Bed) -> None:
    heads = cluster.instances("head")
    with running_job(cluster) as job:
        for change in (change_slurm, change_what_is_around):
            keys = change(cluster)
            done = cluster.up()
            assert done["changed"] is True
            assert {each["key"]: each["effect"] for each in done["changes"]} == dict.fromkeys(keys, "in place")
            assert cluster.instances("head").keys() == heads.keys()
            if change is change_slurm:
                assert {"train-6", "small-2"} <= set(node_names(cluster))
        assert "train-6" not in node_names(cluster)
        # The file system's size is not checked: some kernels do not let a container change it.
        disk = cluster.ssh("sudo", "blockdev", "--getsize64", "/dev/nvme1n1")
        assert int(disk) == 60 * 2**30
        node = cluster.ssh("squeue", "-h", "-j", job.last["job_id"], "-o", "%N").strip()
        launched = instance_of(cluster, node)
    there = cluster.submit(
        f"--sbatch-args=--nodelist={node}",
        "--nodes",
        "1",
        "--launcher",
        "srun",
        "--follow",
        "--",
        "mountpoint",
        "/later",
    )
    assert there.exit_code == 0, "a node that ran when it was made mounts it before its next job"
    assert launched and instance_of(cluster, node) == launched


def test_a_change_that_would_lose_data_is_refused_and_changes_nothing(cluster: Bed) -> None:
    text, before, since = cluster.config.read_text(), cluster.instances("head"), time.time()
    rewrite(cluster, "volume_gib: 60", "volume_gib: 40")
    try:
        planned = json.loads(cluster.gpucluster("plan", "--json").stdout)
        assert [each["effect"] for each in planned["changes"]] == ["refused"]
        refused = cluster.gpucluster("up", "--drain")
        assert refused.returncode == 2 and "EBS cannot shrink a volume" in refused.stderr, refused.stderr
        # The head node itself may end compute nodes meanwhile: idle ones, and those that failed in earlier tests.
        assert cluster.instances("head") == before and not cluster.launched_since(since)
        assert not _changes_of_stacks(cluster, since)
    finally:
        cluster.config.write_text(text)
    assert cluster.up()["changed"] is False


def _changes_of_stacks(cluster: Bed, since: float) -> list[str]:
    calls = cluster.ask(f"calls?since={since}")
    starts = ("Create", "Update", "Execute", "Delete")
    return [
        call["action"] for call in calls if call["service"] == "cloudformation" and call["action"].startswith(starts)
    ]


def test_a_head_node_restarts_only_while_no_job_runs(cluster: Bed) -> None:
    heads = cluster.instances("head")
    with running_job(cluster):
        rewrite(cluster, "instance_type: m6i.large", "instance_type: m6i.xlarge")
        refused = cluster.gpucluster("up")
        assert refused.returncode == 2 and "the head node cannot be changed while jobs run" in refused.stderr
        assert "head node restarted" in refused.stderr
    done = cluster.up()
    assert [each["effect"] for each in done["changes"]] == ["head restarts"]
    (head,) = cluster.instances("head").values()
    assert heads.keys() == {head["instance_id"]} and head["instance_type"] == "m6i.xlarge"
    after = cluster.submit("--launcher", "srun", "--follow", "--", "true")
    assert after.exit_code == 0, after.told


def test_a_terminated_node_is_replaced_by_a_new_instance(cluster: Bed) -> None:
    """It has the name of its predecessor, and usually its address."""
    job = cluster.submit("--nodes", "1", "--launcher", "srun", "--follow", "--", "true")
    (node,) = job.result["node_list"]
    before = cluster.instances("compute")
    cluster.ssh("sudo", "scontrol", "update", f"nodename={node}", "state=power_down_force")
    wait_for("its end", lambda: instance_of(cluster, node) is None, 60)
    wait_for("Slurm's word", lambda: "idle~" in cluster.ssh("sinfo", "-h", "-n", node, "-o", "%t"), 120)
    again = cluster.submit(
        "--nodes", "1", "--launcher", "srun", "--sbatch-args=--nodelist=" + node, "--follow", "--", "true"
    )
    assert again.exit_code == 0, again.told
    assert again.result["node_list"] == [node]
    (new,) = cluster.instances("compute").keys() - before.keys()
    found = instance_of(cluster, node)
    assert found and found["instance_id"] == new


def test_killed_services_restart_with_the_queue_and_the_running_job(cluster: Bed) -> None:
    with running_job(cluster) as job:
        (node,) = cluster.ssh("squeue", "-h", "-j", job.last["job_id"], "-o", "%N").split()
        cluster.ssh("ssh", node, "sudo systemctl kill --signal=KILL --kill-whom=main slurmd")
        time.sleep(stretched(SLURM_SAVES_WITHIN_S))
        queue = wait_for("the end of other jobs", lambda: _queue_of_one(cluster), 60)
        main = {unit: _pid_of(cluster, unit) for unit in SERVICES}
        cluster.ssh("sudo", "kill", "-9", *main.values())
        for unit in SERVICES:
            wait_for(f"another {unit}", partial(_is_another, cluster, unit, main[unit]), 60)
        wait_for("the controller", lambda: "is UP" in _pinged(cluster), 60)
        assert cluster.ssh("squeue", "-h", "-o", "%i %T") == queue
        slurmd = ("ssh", node, "systemctl is-active slurmd || :")
        wait_for("slurmd", lambda: cluster.ssh(*slurmd) == "active\n", 60)


SLURM_SAVES_WITHIN_S = 10
"""Slurm 23.11 and 24.11 write a changed queue after five seconds (SAVE_MAX_WAIT in slurmctld/state_save.c); a job that
started since then runs again."""
SERVICES = ("slurmctld", "slurmdbd", "mariadb", "munge", "gpucluster-power", "gpucluster-update")


def _queue_of_one(cluster: Bed) -> str:
    queue = cluster.ssh("squeue", "-h", "-o", "%i %T")
    return queue if len(queue.splitlines()) == 1 else ""


def _pid_of(cluster: Bed, unit: str) -> str:
    return cluster.ssh("systemctl", "show", "-P", "MainPID", unit).strip()


def _is_another(cluster: Bed, unit: str, pid: str) -> bool:
    return _pid_of(cluster, unit) not in ("0", pid)


def _pinged(cluster: Bed) -> str:
    return cluster.ssh("sh", "-c", "timeout 20 scontrol ping || :")


def test_a_terminated_head_is_replaced_under_a_running_job(cluster: Bed) -> None:
    """The new head has another image. This must be the last test here: later ones would find another head node."""
    (old,) = cluster.instances("head").values()
    before = old["instance_id"]
    ended = cluster.submit("--nodes", "1", "--launcher", "srun", "--follow", "--", "true")
    with ExitStack() as stack:
        with running_job(cluster) as job:
            (node,) = cluster.ssh("squeue", "-h", "-j", job.last["job_id"], "-o", "%N").split()
            nodes, log = cluster.instances("compute"), stack.enter_context(followed(cluster, job.last["job_id"]))
            cluster.client("ec2").terminate_instances(InstanceIds=[before])
            wait_for("the end of the head node", lambda: not cluster.instances("head"), 120)
            # moto's image has the name of Ubuntu 16.04
            rewrite(cluster, "head_node:\n", f"silence: [image-system]\nhead_node:\n  image: {ANOTHER_IMAGE}\n")
            assert cluster.up()["changed"] is True
            (after,) = cluster.instances("head").values()
            assert after["instance_id"] != before
            # Of the others, one may have been idle long enough to be terminated meanwhile.
            kept = {id_: each for id_, each in nodes.items() if each["node"] == node}
            assert kept and cluster.instances("compute").items() >= kept.items()
            assert ended.last["job_id"] in cluster.ssh("sacct", "-X", "-n", "-o", "JobID").split()
            if after["private_ip"] != old["private_ip"]:  # otherwise nothing needs to be redirected
                way = f"dnat to {after['private_ip']}"
                wait_for("the way to it", lambda: way in cluster.ssh("ssh", node, "sudo nft list ruleset"), 120)
        output, _ = log.communicate(timeout=120)
    assert log.returncode == 0 and "same process" in output, output
    assert f"job {job.last['job_id']} continues" in output and "the head node answers again" in output, output
    again = cluster.submit("--nodes", "1", "--launcher", "srun", "--follow", "--", "true")
    assert again.exit_code == 0, again.told
    assert int(again.last["job_id"]) > int(job.last["job_id"]), "Slurm's state is the same one"


@contextmanager
def followed(cluster: Bed, job_id: str) -> Iterator[subprocess.Popen[str]]:
    """`gpucluster logs -f` of a running job, once connected to the head node. Warnings come first."""
    with cluster.start("logs", "-f", job_id) as log:
        try:
            assert log.stdout
            lines = iter(log.stdout.readline, "")
            assert any(f"job {job_id} " in line or line.startswith("[preflight]") for line in lines)
            yield log
        finally:
            log.kill()
