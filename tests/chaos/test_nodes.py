"""Rows of the chaos table: faults of one compute node."""

from __future__ import annotations

import time

import pytest
from bed import wait_for
from rows import Row

pytestmark = pytest.mark.partitions("nodes")


@pytest.mark.fault("a node's instance ends while its job runs")
def test_a_node_that_ends(row: Row) -> None:
    job = row.running("--nodes", "2", follow=True)
    node = job.nodes[1]
    ended = row.bed.instance_of(node)
    row.begins()
    row.fault_of(node, "death")
    row.follows(job, f"lost the node {node}")
    job.wait_until("started", 4)  # two ranks, twice
    row.ends("the job ran again on two nodes")
    job.goes_on()
    wait_for("the instance's end", lambda: ended not in row.bed.instances("compute"), 60)


@pytest.mark.fault("slurmd is killed while a job runs")
def test_a_killed_slurmd(row: Row) -> None:
    job = row.running(follow=True)
    (node,) = job.nodes

    def slurmd() -> list[str]:
        """Its state and its process."""
        return row.bed.ssh("ssh", node, "systemctl show --value -p ActiveState -p MainPID slurmd").split()

    before = slurmd()
    row.begins()
    row.bed.ssh("ssh", node, "sudo systemctl kill --signal=KILL --kill-whom=main slurmd")
    wait_for("another slurmd", lambda: "active" in (now := slurmd()) and now != before, 60)
    row.ends("systemd restarts slurmd; the job is the same process")
    job.is_same_process()
    row.sees_nothing(job)


@pytest.mark.fault(
    "a user launches instances with the cluster's tags: of no node, of an unknown node, of a node that is up"
)
def test_orphans(row: Row) -> None:
    job = row.running(follow=True)
    (node,) = job.nodes
    row.begins()
    like = row.bed.instance_of(node)
    orphans = {_launched_by_hand(row, like, tags) for tags in ({}, {"node": "nodes-99"}, {"node": node})}
    launched = time.monotonic()
    wait_for("their end", lambda: not orphans & set(row.bed.instances("compute")), 240)
    assert time.monotonic() - launched > 45, "a launch of a node has time to get its tags"
    assert like in row.bed.instances("compute")
    row.ends("terminated after 60 s; the node keeps its own instance")
    job.is_same_process()
    row.sees_nothing(job)


def _launched_by_hand(row: Row, instance_id: str, tags: dict[str, str]) -> str:
    """With the place and the tags of another instance, as by EC2's console: "Launch more like this"."""
    ec2 = row.bed.client("ec2")
    (like,) = ec2.describe_instances(InstanceIds=[instance_id])["Reservations"][0]["Instances"]
    tags = {"cluster": "GpuCluster", "role": "compute", **tags}
    named = [{"Key": f"gpucluster:{name}", "Value": value} for name, value in tags.items()]
    launched = ec2.run_instances(
        ImageId=like["ImageId"], InstanceType="m6i.large", SubnetId=like["SubnetId"], MinCount=1, MaxCount=1,
        TagSpecifications=[{"ResourceType": "instance", "Tags": named}],
    )  # fmt: skip
    launched_id = str(launched["Instances"][0]["InstanceId"])
    assert launched_id in row.bed.instances("compute"), "it runs at first"
    return launched_id
