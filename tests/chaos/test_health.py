"""Rows of the chaos table: hardware that fails, and clocks that run away.

Three failures in a row pause the launches of a type. So the rows alternate between partitions of different types: a
type whose new instance stays in service has passed.
"""

from __future__ import annotations

import pytest
from bed import wait_for
from rows import Job, Row, counting

ALL_GPUS = ("--gpus-per-node", "4")
CHECK = "systemctl is-active gpucluster-health || :"
JUMP = """
sudo mkdir -p /run/systemd/system/munge.service.d
printf '[Service]\\nEnvironment=LD_PRELOAD=%s FAKETIME=+600\\n' /usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1 |
    sudo tee /run/systemd/system/munge.service.d/clock.conf
sudo systemctl daemon-reload && sudo systemctl restart munge
"""
pytestmark = pytest.mark.partitions("checks", "clocks")
XID = "NVRM: Xid (PCI:0000:00:1b): 79, GPU has fallen off the bus."
"""NVIDIA's driver, on a developer forum (tests/data/health/xid.txt)."""


def checked_node(row: Row, partition: str) -> str:
    """A node that is up and idle, and that the check after its last job has left."""
    job = row.submit("--partition", partition, *ALL_GPUS, "--", *counting(1))
    job.completes()
    (node,) = job.nodes
    wait_for("an idle node", lambda: row.bed.ssh("sinfo", "-h", "-n", node, "-o", "%t").strip() == "idle", 60)
    wait_for("its last check", lambda: row.bed.ssh("ssh", node, CHECK).strip() in ("inactive", "failed"), 60)
    return node


def runs_on_a_new_instance(row: Row, node: str, reason: str) -> Job:
    """A job that Slurm sends to the node, whose check fails with this reason."""
    broken = row.bed.instance_of(node)
    shape = ("--partition", node.rpartition("-")[0], f"--sbatch-args=--nodelist={node}", *ALL_GPUS)
    job = row.submit(*shape, "--", *counting(3), follow=True)
    row.follows(job, f"and is replaced: health: {reason}")
    row.why(job, f"health: {reason}")
    job.completes()
    row.ends("the job ran on a new instance of the node")
    assert job.log.count("started") == 1
    wait_for("the old instance's end", lambda: broken not in row.bed.instances("compute"), 120)
    return job


@pytest.mark.fault("a node has lost a GPU when a job is sent to it")
def test_a_lost_gpu(row: Row) -> None:
    node = checked_node(row, "checks")
    row.begins()
    row.fault_of(node, "lost-gpu")
    runs_on_a_new_instance(row, node, "nvidia-smi lists 3 of 4 GPUs")


@pytest.mark.fault("a node has lost its EFA interface when a job is sent to it")
def test_a_lost_efa_interface(row: Row) -> None:
    node = checked_node(row, "checks")
    row.begins()
    row.fault_of(node, "lost-efa")
    runs_on_a_new_instance(row, node, "fi_info lists 0 of 1 EFA interfaces")


@pytest.mark.fault("a node's clock is a minute ahead when a job is sent to it")
def test_a_clock_that_is_off(row: Row) -> None:
    node = checked_node(row, "clocks")
    row.begins()
    row.fault_of(node, "clock-skew", "--value", "60")
    runs_on_a_new_instance(row, node, "its clock is 60 s ahead of Amazon's time service")


@pytest.mark.fault("nvidia-smi hangs in the check before a job")
def test_a_check_that_hangs(row: Row) -> None:
    node = checked_node(row, "clocks")
    row.begins()
    hang = "printf '#!/bin/sh\\nexec sleep 600\\n' | sudo tee /usr/local/sbin/nvidia-smi"
    row.bed.ssh("ssh", node, f"{hang} && sudo chmod +x /usr/local/sbin/nvidia-smi")
    runs_on_a_new_instance(row, node, "nvidia-smi did not answer within 60 s")


@pytest.mark.fault("a GPU falls off the bus while its job runs (Xid 79)")
def test_an_xid_error(row: Row) -> None:
    job = row.running("--nodes", "2", *ALL_GPUS, follow=True)
    node = job.nodes[1]
    broken = row.bed.instance_of(node)
    row.begins()
    row.fault_of(node, "kernel-log", "--message", XID)
    row.follows(job, f"{node} was lost: health: Xid 79 of GPU 0000:00:1b: the GPU has fallen off the bus")
    job.wait_until("started", 4)
    row.ends("the job ran again on two nodes")
    assert broken not in [row.bed.instance_of(each) for each in job.nodes]
    job.goes_on()
    wait_for("the instance's end", lambda: broken not in row.bed.instances("compute"), 120)


@pytest.mark.fault("a node's clock jumps ten minutes ahead while its job runs, and munge refuses it")
def test_a_clock_that_munge_refuses(row: Row) -> None:
    """A real munged, whose clock is ahead: libfaketime."""
    job = row.running()
    (node,) = job.nodes
    broken = row.bed.instance_of(node)
    row.bed.ssh("ssh", node, "sudo apt-get -qq update && sudo apt-get -qq install -y libfaketime", timeout_s=240)
    row.begins()
    row.bed.ssh("ssh", node, JUMP)
    row.status("does not respond", 300)
    job.wait_until("started", 2, 400)
    row.ends("Slurm gives the silent node up after 120 s (SlurmdTimeout); the job ran again on another one")
    job.goes_on()
    wait_for("the instance's end", lambda: broken not in row.bed.instances("compute"), 120)
