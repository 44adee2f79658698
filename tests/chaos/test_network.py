"""Rows of the chaos table: faults of the network, of one node's metadata, and of names that are out of date."""

from __future__ import annotations

import time

import pytest
from bed import wait_for
from rows import Row, counting, states

pytestmark = pytest.mark.partitions("network")
NOBODYS = "10.0.191.254"
ASK = """
sudo curl -s -m 5 -o /dev/null -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 60' \\
    http://169.254.169.254/latest/api/token; echo $?
"""
"""Asks the metadata service as root: the node's firewall refuses other users. Prints curl's exit code."""
TIMED_OUT = "28\n"
MEETING = """
import os, socket
place = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
if os.environ["RANK"] == "0":
    print(socket.create_server(place).accept()[0].recv(99).decode())
else:
    while True:
        try:
            socket.create_connection(place, 5).sendall(b"the answer is 5050")
            break
        except OSError as error:
            print(f"rank 0 does not answer at {place}: {error}", flush=True)
            __import__("time").sleep(1)
"""
"""The second rank gives the answer to the first, at the address that the job has for it."""


@pytest.mark.fault("the network of a node is cut while its job runs")
def test_a_cut_network(row: Row) -> None:
    job = row.running("--nodes", "2", follow=True)
    node = job.nodes[1]
    cut = row.bed.instance_of(node)
    row.begins()
    row.fault_of(node, "network-cut")
    row.follows(job, f"lost the node {node}", 400)
    job.wait_until("started", 4)
    row.ends("Slurm gives the silent node up after 120 s (SlurmdTimeout); the job ran again on two other nodes")
    job.goes_on()
    wait_for("the instance's end", lambda: cut not in row.bed.instances("compute"), 400)


@pytest.mark.fault("DNS still has the address of a node's last instance")
def test_a_stale_address(row: Row) -> None:
    """Resolvers and Route 53 may be late by a minute. The address belongs to nobody, as after the instance's end."""
    node, other = "network-1", "network-2"  # rank 0 is on the first
    power_off(row, node)
    route53 = row.bed.client("route53")
    zone = next(each for each in route53.list_hosted_zones()["HostedZones"] if each["Config"]["PrivateZone"])

    def set_address(address: str) -> None:
        record = {"Name": f"{node}.{zone['Name']}", "Type": "A", "TTL": 10, "ResourceRecords": [{"Value": address}]}
        changes = {"Changes": [{"Action": "UPSERT", "ResourceRecordSet": record}]}
        route53.change_resource_record_sets(HostedZoneId=zone["Id"], ChangeBatch=changes)

    shape = (f"--sbatch-args=--nodelist={node},{other}", "--nodes", "2")
    job = row.submit(*shape, "--", "python3", "-c", MEETING, follow=True)
    row.begins()
    own = wait_for("the instance", lambda: _address(row, node), 120)
    try:
        set_address(NOBODYS)
        assert job.state != "RUNNING", "the address is stale before the job starts"
        job.completes()
        answer = row.bed.ssh("ssh", other, f"getent ahostsv4 {node}.{zone['Name']}").split()
        assert answer[0] == NOBODYS, "DNS has still the stale address"
        row.ends("the job's nodes use the addresses that Slurm has; nobody asks DNS for a compute node")
        row.sees_nothing(job)
    finally:
        set_address(own)


def power_off(row: Row, node: str) -> None:
    if states(row)[node] == "idle":
        row.bed.ssh("sudo", "scontrol", "update", f"nodename={node}", "state=power_down_force")
    wait_for(f"{node} to be off", lambda: states(row)[node] == "idle~", 180)
    wait_for("its instance's end", lambda: not _address(row, node), 60)


def _address(row: Row, node: str) -> str:
    found = [each for each in row.bed.instances("compute").values() if each["node"] == node]
    return str(found[0]["private_ip"]) if found else ""


@pytest.mark.fault("the metadata service does not answer a node for two minutes, and so the node gets no credentials")
def test_no_metadata(row: Row) -> None:
    before = row.running()
    (node,) = before.nodes
    instance = row.bed.instance_of(node)
    before.goes_on()
    row.begins()
    row.fault_of(node, "no-metadata")
    until = time.monotonic() + 120
    assert row.bed.ssh("ssh", node, ASK) == TIMED_OUT
    job = row.submit(f"--sbatch-args=--nodelist={node}", "--", *counting(5), follow=True)
    job.completes()
    row.ends("the job ran on this node; the check of EC2's events gives up after 5 s")
    time.sleep(max(0.0, until - time.monotonic()))
    assert row.bed.ssh("ssh", node, ASK) == TIMED_OUT, "the fault has lasted until now"
    assert row.bed.instance_of(node) == instance, "the node is still in service"
    row.sees_nothing(job)
