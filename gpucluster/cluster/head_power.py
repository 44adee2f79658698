"""Stops and starts the head node. A stopped instance keeps its private address, its disks and the data volume
(EC2 user guide, "What happens when you stop an instance")."""

from __future__ import annotations

from typing import Any

from gpucluster.cluster import aws, tagged_instances
from gpucluster.cluster.aws import Aws
from gpucluster.errors import CloudError

POLL_S = 5
PATIENCE_S = 900


def running_nodes(cloud: Aws) -> list[str]:
    """Names of the cluster's compute nodes that run or boot."""
    with aws.aws_errors():
        found = tagged_instances.find(
            cloud.client("ec2"), tagged_instances.UP, cluster=cloud.config.name, role="compute"
        )
    return sorted(tagged_instances.node_of(each) or each["InstanceId"] for each in found)


def stop(cloud: Aws) -> bool:
    """Whether it ran or booted before. Returns when it is stopped. Raises CloudError if there is no head node."""
    head = cloud.head()
    if head.state == "stopped":
        return False
    _refuse_ended(head.instance_id, head.state)
    with aws.aws_errors():
        ec2 = cloud.client("ec2")
        if head.state == "pending":
            _wait(ec2, "instance_running", head.instance_id)
        if head.state != "stopping":
            ec2.stop_instances(InstanceIds=[head.instance_id])
        _wait(ec2, "instance_stopped", head.instance_id)
    return head.state != "stopping"


def start(cloud: Aws) -> bool:
    """Whether it was stopped or stopping before. Returns when EC2 runs it; Slurm needs some seconds more."""
    head = cloud.head()
    if head.state == "running":
        return False
    _refuse_ended(head.instance_id, head.state)
    with aws.aws_errors():
        ec2 = cloud.client("ec2")
        if head.state == "stopping":
            _wait(ec2, "instance_stopped", head.instance_id)
        if head.state != "pending":
            ec2.start_instances(InstanceIds=[head.instance_id])
        _wait(ec2, "instance_running", head.instance_id)
    return head.state != "pending"


def _wait(ec2: Any, waiter: str, instance_id: str) -> None:
    ec2.get_waiter(waiter).wait(
        InstanceIds=[instance_id], WaiterConfig={"Delay": POLL_S, "MaxAttempts": PATIENCE_S // POLL_S}
    )


def _refuse_ended(instance_id: str, state: str) -> None:
    if state in ("terminated", "shutting-down", "gone"):
        raise CloudError(f"the head node {instance_id} is {state}", "`gpucluster up` creates a new one")
