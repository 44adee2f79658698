"""Rows of the chaos table: faults of the head node. A job that runs is the same process afterwards."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from bed import UP_TIMEOUT_S, Bed, wait_for
from powered_off import powered_off_node
from rows import Job, Row, explain_errors

ALONE = ("--nodes", "1")
SAVED_S = 6
"""By then slurmctld has written a new job (SAVE_MAX_WAIT, 5 s, in state_save.c). It forgets one that it has not."""


def the_head(bed: Bed) -> str:
    (head,) = bed.instances("head")
    return head


@pytest.mark.fault("slurmctld is killed while it launches a job's nodes")
def test_slurmctld_killed_during_resume(row: Row) -> None:
    """The launch is another unit's, and goes on."""
    node, cause = powered_off_node(row.bed), "RequestLimitExceeded"
    row.fault_add("throttle", "--action", "RunInstances")
    began = time.time()
    job = row.submit(*ALONE, f"--sbatch-args=--nodelist={node}", "--", "echo", "the answer is 5050")
    wait_for("the launch", lambda: replays(row.bed, node) == [0], 120)
    time.sleep(SAVED_S)
    row.begins()
    row.kills("slurmctld")
    assert replays(row.bed, node) == [0], "it goes on"
    row.why(job, f"EC2 has not launched {node} yet: {cause}")
    row.clear()
    job.completes()
    assert row.bed.launched_since(began) == {row.bed.instance_of(node)}
    row.ends("systemd restarts slurmctld, and the launch goes on; the node is launched once")


def replays(bed: Bed, node: str) -> list[int]:
    """For each launch of the node: how often it was begun again because its process had ended."""
    launching = f"grep -hw {node} /run/gpucluster/launching/*.json 2>/dev/null || :"
    return [json.loads(line)["replays"] for line in bed.ssh("sh", "-c", launching).splitlines()]


@pytest.mark.fault("the program that launches is killed while EC2 throttles its launch")
def test_launch_killed_while_ec2_throttles(row: Row) -> None:
    node = powered_off_node(row.bed)
    row.fault_add("throttle", "--action", "RunInstances")
    began = time.time()
    job = row.submit(*ALONE, f"--sbatch-args=--nodelist={node}", "--", "echo", "the answer is 5050", follow=True)
    row.follows(job, "RequestLimitExceeded")
    row.begins()
    row.kills("gpucluster-power")
    wait_for("the repeated launch", lambda: replays(row.bed, node) == [1], 60)
    row.clear()
    wait_for("the launch", lambda: row.bed.launched_since(began), 30)
    row.ends("systemd starts it again, and it completes the launch; the job keeps its node")
    job.completes()
    assert row.bed.launched_since(began) == {row.bed.instance_of(node)}


@pytest.mark.fault("the program that launches is killed after EC2 has launched a node, before it has named it")
def test_launch_killed_before_its_nodes_have_names(row: Row) -> None:
    node = powered_off_node(row.bed)
    row.fault_add("throttle", "--action", "CreateTags")
    row.begins()
    began = time.time()
    job = row.submit(*ALONE, f"--sbatch-args=--nodelist={node}", "--", "echo", "the answer is 5050", follow=True)
    wait_for("the launch", lambda: row.bed.launched_since(began), 60, 0.1)
    row.kills("gpucluster-power")
    row.clear()
    job.completes()
    assert row.bed.launched_since(began) == {row.bed.instance_of(node)}
    row.ends("it makes the same call again, and EC2 returns the same instance; the job keeps its node")
    row.sees_nothing(job)


@pytest.mark.fault("the head node's own disk is full (/var/log, /tmp, /var/tmp)")
def test_full_root_disk(row: Row) -> None:
    node = powered_off_node(row.bed)
    job = row.settled()
    with small_disk(row.bed):
        row.begins()
        row.bed.ssh("sudo", "sh", "-c", FILL)
        row.status("100 % full")
        meanwhile = row.submit(*ALONE, f"--sbatch-args=--nodelist={node}", "--", "echo", "the answer is 5050")
        meanwhile.completes()
        assert not is_logged(meanwhile), "slurmctld's log has no space either"
        explain_errors(row.bed)
    row.ends("jobs start, run and complete, also on nodes that are launched meanwhile; the logs have a gap")
    job.is_same_process()
    wait_for("a log without a gap", lambda: is_logged(job), 30)


def is_logged(job: Job) -> bool:
    """Whether slurmctld's log has the end of the job."""
    return bool(job.bed.ssh("sudo", "sh", "-c", f"grep 'JobId={job.id} done' /var/log/slurm/slurmctld.log || :"))


@contextmanager
def small_disk(bed: Bed) -> Iterator[None]:
    """One of the places to which the head node writes: machines of the local cloud share this machine's disk."""
    bed.ssh("sudo", "sh", "-c", f"{WITH_FILES}{MOUNT}{RESTART}")
    # slurmdbd ends if it starts on a full disk. Here it is the fault of a cluster that runs.
    wait_for("Slurm's accounting", lambda: bed.ssh("sh", "-c", "sacctmgr -n list cluster 2>/dev/null || :"), 60)
    try:
        yield
    finally:
        bed.ssh("sudo", "sh", "-c", f"{WITH_FILES}{UNMOUNT}{RESTART}")


PLACES = "/var/log /tmp /var/tmp"
WITH_FILES = f"""
pids=$(for at in {PLACES}; do find /proc/[0-9]*/fd -lname "$at/*" 2>/dev/null; done | cut -d / -f 3 | sort -u)
services=$(systemctl whoami $pids | grep '[.]service$' | sort -u)
"""
"""The services that have files open there."""
MOUNT = f"""
for at in {PLACES}; do
    copy=$(mktemp -d /run/full.XXXX)
    cp -a --attributes-only "$at/." "$copy/"
    mount -t tmpfs -o "size=1m,mode=$(stat -c %a "$at")" tmpfs "$at"
    cp -a "$copy/." "$at/"
    rm -r "$copy"
done
"""
RESTART = """
systemctl restart $services
"""
"""Their open files stay where they were until then."""
FILL = f"""
for at in {PLACES}; do dd if=/dev/zero of="$at/full" 2>/dev/null || :; done
for log in /var/log/*/*.log; do yes "" | head -c 4096 >> "$log" 2>/dev/null || :; done
"""
"""Also the rest of the last page of each log."""
UNMOUNT = f"""
for at in {PLACES}; do rm -f "$at/full"; umount -l "$at"; done
"""


@pytest.mark.fault("the credentials of the head node's role have expired")
def test_expired_credentials(row: Row) -> None:
    node = powered_off_node(row.bed)
    running = row.settled()
    row.begins()
    row.fault_add("expired", "--instance-id", the_head(row.bed))
    job = row.submit(*ALONE, f"--sbatch-args=--nodelist={node}", "--", "echo", "the answer is 5050")
    row.why(job, "role have expired")
    row.clear()
    job.completes()
    row.ends("the node is launched when the role has credentials again")
    running.is_same_process()


@pytest.mark.fault("the head node restarts")
def test_rebooted_head(row: Row) -> None:
    head = the_head(row.bed)
    job = row.settled()
    with slow_ssh(row.bed):
        row.begins()
        row.bed.client("ec2").reboot_instances(InstanceIds=[head])
        row.follows(job, "the head node is asked until it answers")
        row.follows(job, "the head node answers again")
    row.ends("the job is the same process, and `logs -f` continues")
    job.is_same_process()
    assert the_head(row.bed) == head


@contextmanager
def slow_ssh(bed: Bed) -> Iterator[None]:
    """The next boot takes as long as on EC2. In the local cloud a head node is back before `logs -f` has noticed."""
    bed.ssh("sudo", "sh", "-c", SLOW_SSH)
    try:
        yield
    finally:
        bed.ssh("sudo", "sh", "-c", "rm -r /etc/systemd/system/ssh.service.d/slow.conf && systemctl daemon-reload")


SLOW_SSH = """
mkdir -p /etc/systemd/system/ssh.service.d
printf '[Service]\\nExecStartPre=sleep 40\\n' > /etc/systemd/system/ssh.service.d/slow.conf
systemctl daemon-reload
"""


@pytest.mark.fault("the head node is terminated")
def test_a_terminated_head(row: Row) -> None:
    job, before = row.settled(), the_head(row.bed)
    explain_errors(row.bed)
    row.begins()
    row.bed.client("ec2").terminate_instances(InstanceIds=[before])
    row.follows(job, f"job {job.id} continues, and the head node is asked until it answers")
    wait_for("the end of the head node", lambda: not row.bed.instances("head"), 120)
    row.status(f"the head node {before} is terminated")
    row.bed.up()
    row.follows(job, "the head node answers again")
    row.ends("`gpucluster up` creates another one with the same volume; the job is the same process")
    job.is_same_process()
    assert the_head(row.bed) != before
    a_new_job_runs(row)


@pytest.mark.fault("the head node is replaced on purpose (`gpucluster head replace`)")
def test_a_replaced_head(row: Row) -> None:
    job, before = row.settled(), the_head(row.bed)
    explain_errors(row.bed)
    row.begins()
    done = row.bed.gpucluster("head", "replace", timeout_s=UP_TIMEOUT_S)
    assert done.returncode == 0, done.stderr
    said = f"replacing the head node {before}: another one takes over its volume"
    assert said in done.stderr
    row.saw = f"`head replace`: {said}"  # `logs -f` says nothing if the new one answers at the first try
    row.ends("another one takes over its volume; the job is the same process")
    job.is_same_process()
    assert the_head(row.bed) != before
    a_new_job_runs(row)


def a_new_job_runs(row: Row) -> None:
    """On a node that the new head node launches: it has the queue's next id."""
    node = powered_off_node(row.bed)
    job = row.submit(*ALONE, f"--sbatch-args=--nodelist={node}", "--", "echo", "the answer is 5050")
    job.completes()
    assert int(job.id) > int(row.jobs[0].id)
