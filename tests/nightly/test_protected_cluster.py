"""A protected cluster whose head node was replaced without `up`, or whose creation failed. Nothing boots."""

from __future__ import annotations

from tests.cloud.played_head import Head
from tests.cloud.test_termination import CLUSTER, NAME, Cluster, cluster, kept_and_removed

SUBJECTS = [
    "gpucluster/cli/down.py",
    "gpucluster/cli/up.py",
    "gpucluster/cluster/deployment.py",
    "gpucluster/cluster/stack.py",
    "stacks/accounting.py",
    "stacks/head.py",
]
__all__ = ["cluster"]


def heads(cluster: Cluster) -> dict[str, str]:
    """Instance id -> state, of those that are not terminated."""
    tagged = [
        {"Name": "tag:gpucluster:cluster", "Values": [NAME]},
        {"Name": "tag:gpucluster:role", "Values": ["head"]},
    ]
    found = cluster.cloud.client("ec2").describe_instances(Filters=tagged)["Reservations"]
    states = {each["InstanceId"]: each["State"]["Name"] for group in found for each in group["Instances"]}
    return {id_: state for id_, state in states.items() if state not in ("terminated", "shutting-down")}


def launch_another_head(cluster: Cluster) -> str:
    """Launches a second instance with the tags and the protection of the first."""
    ec2 = cluster.cloud.client("ec2")
    (head,) = cluster.ids("AWS::EC2::Instance")
    like = ec2.describe_instances(InstanceIds=[head])["Reservations"][0]["Instances"][0]
    tags = [tag for tag in like["Tags"] if not tag["Key"].startswith("aws:")]
    made = ec2.run_instances(
        ImageId=like["ImageId"],
        InstanceType=like["InstanceType"],
        SubnetId=like["SubnetId"],
        SecurityGroupIds=[group["GroupId"] for group in like["SecurityGroups"]],
        TagSpecifications=[{"ResourceType": "instance", "Tags": tags}],
        DisableApiTermination=True,
        MinCount=1,
        MaxCount=1,
    )
    return str(made["Instances"][0]["InstanceId"])


def test_up_starts_a_stopped_head_and_terminates_a_replaced_one(cluster: Cluster) -> None:
    """`cdk deploy` without `up` replaces a protected head node and then cannot terminate the old one."""
    with Head(cluster.cloud, NAME):
        assert cluster.gpucluster("up").returncode == 0
        (head,) = heads(cluster)
        left = launch_another_head(cluster)
        cluster.cloud.client("ec2").stop_instances(InstanceIds=[head])
        cluster.file.write_text(CLUSTER.replace("max_nodes: 2", "max_nodes: 3"))
        up = cluster.gpucluster("up")
    assert up.returncode == 0, up.stderr
    assert f"starting the head node {head}, which is stopped" in up.stderr
    assert f"terminating {left}, which is no longer the head node" in up.stderr
    assert list(heads(cluster)) == cluster.ids("AWS::EC2::Instance") == [head]
    (volume,), (database,) = cluster.ids("AWS::EC2::Volume"), cluster.ids("AWS::RDS::DBInstance")
    assert cluster.gpucluster("down", typed=f"y\n{NAME}\n").returncode == 0
    kept_and_removed(cluster.cloud, volume, database)


def test_a_failed_first_deployment_can_be_repeated_despite_protection(cluster: Cluster) -> None:
    """The cluster never ran. The CDK command line deletes what is left, and the protection must not prevent that."""
    with Head(cluster.cloud, NAME, "FAILURE", "step=slurm line=42: no"):
        failed = cluster.gpucluster("up")
    assert failed.returncode == 3 and "step=slurm line=42: no" in failed.stderr, failed.stderr
    assert cluster.status() == "ROLLBACK_FAILED", "head node and database are protected too"
    (left,), (empty,) = cluster.ids("AWS::EC2::Volume"), cluster.ids("AWS::RDS::DBInstance")
    with Head(cluster.cloud, NAME):
        up = cluster.gpucluster("up")
    assert up.returncode == 0, up.stderr
    assert f"lifting the termination protection of {NAME}" in up.stderr
    kept_and_removed(cluster.cloud, left, empty)
    assert cluster.protected() == (True, True, True)
    (volume,), (database,) = cluster.ids("AWS::EC2::Volume"), cluster.ids("AWS::RDS::DBInstance")
    assert cluster.gpucluster("down", typed=f"y\n{NAME}\n").returncode == 0
    kept_and_removed(cluster.cloud, volume, database)
