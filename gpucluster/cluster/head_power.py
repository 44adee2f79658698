"""Stops and starts the head node. A stopped instance keeps its private address, its disks and the data volume
(EC2 user guide, "What happens when you stop an instance")."""

from __future__ import annotations

from gpucluster.cluster import aws, instance_states, tagged_instances
from gpucluster.cluster.aws import Aws
from gpucluster.errors import CloudError


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
            instance_states.wait(ec2, [head.instance_id], "running")
        if head.state != "stopping":
            ec2.stop_instances(InstanceIds=[head.instance_id])
        instance_states.wait(ec2, [head.instance_id], "stopped")
    return head.state != "stopping"


def start(cloud: Aws) -> bool:
    """Whether it was stopped or stopping before. Returns when EC2 runs it; Slurm needs some seconds more. Raises
    CloudError if EC2 cannot start it."""
    head = cloud.head()
    if head.state == "running":
        return False
    _refuse_ended(head.instance_id, head.state)
    with aws.aws_errors():
        ec2 = cloud.client("ec2")
        if head.state == "stopping":
            instance_states.wait(ec2, [head.instance_id], "stopped")
        if head.state != "pending":
            ec2.start_instances(InstanceIds=[head.instance_id])
        instance_states.wait(ec2, [head.instance_id], "running")
    return head.state != "pending"


def _refuse_ended(instance_id: str, state: str) -> None:
    if state in ("terminated", "shutting-down", "gone"):
        raise CloudError(f"the head node {instance_id} is {state}", "`gpucluster up` creates a new one")
