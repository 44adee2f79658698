"""A protected cluster whose head node was replaced without `up`, or whose creation failed. Nothing boots."""

from __future__ import annotations

from tests.cloud.played_head import Head
from tests.cloud.test_deployment import another_like, heads
from tests.cloud.test_termination import CLUSTER, NAME, Cluster, guarded, kept_and_removed

SUBJECTS = [
    "gpucluster/cli/down.py",
    "gpucluster/cli/up.py",
    "gpucluster/cluster/deployment.py",
    "gpucluster/cluster/stack.py",
    "gpucluster/cluster/tagged_instances.py",
    "localcloud/cloudformation/*",
    "localcloud/databases/rds.py",
    "stacks/accounting.py",
    "stacks/cluster.py",
    "stacks/deletion.py",
    "stacks/head.py",
    "stacks/storage/home.py",
]
COVERED_BY = (
    "test_deployment.py: the same three steps of up on a small stack; test_termination.py: a protected cluster is "
    "deleted only after its name is typed"
)
__all__ = ["guarded"]


def test_up_starts_a_stopped_head_and_terminates_a_replaced_one(guarded: Cluster) -> None:
    """`cdk deploy` without `up` replaces a protected head node and then cannot terminate the old one."""
    ec2 = guarded.cloud.client("ec2")
    with Head(guarded.cloud, NAME):
        assert guarded.gpucluster("up").returncode == 0
        (head,) = heads(ec2, NAME)
        left = another_like(ec2, head)
        ec2.stop_instances(InstanceIds=[head])
        guarded.file.write_text(CLUSTER.replace("max_nodes: 2", "max_nodes: 3"))
        up = guarded.gpucluster("up")
    assert up.returncode == 0, up.stderr
    assert f"starting the head node {head}, which is stopped" in up.stderr
    assert f"terminating {left}, which is no longer the head node" in up.stderr
    assert list(heads(ec2, NAME)) == guarded.ids("AWS::EC2::Instance") == [head]
    (volume,), (database,) = guarded.ids("AWS::EC2::Volume"), guarded.ids("AWS::RDS::DBInstance")
    assert guarded.gpucluster("down", typed=f"y\n{NAME}\n").returncode == 0
    kept_and_removed(guarded.cloud, volume, database)


def test_a_failed_first_deployment_can_be_repeated_despite_protection(guarded: Cluster) -> None:
    """The cluster never ran. The CDK command line deletes what is left, and the protection must not prevent that."""
    with Head(guarded.cloud, NAME, "FAILURE", "step=slurm line=42: no"):
        failed = guarded.gpucluster("up")
    assert failed.returncode == 3 and "step=slurm line=42: no" in failed.stderr, failed.stderr
    assert guarded.status() == "ROLLBACK_FAILED", "head node and database are protected too"
    (left,), (empty,) = guarded.ids("AWS::EC2::Volume"), guarded.ids("AWS::RDS::DBInstance")
    with Head(guarded.cloud, NAME):
        up = guarded.gpucluster("up")
    assert up.returncode == 0, up.stderr
    assert f"lifting the termination protection of {NAME}" in up.stderr
    kept_and_removed(guarded.cloud, left, empty)
    assert guarded.protected() == (True, True, True)
    (volume,), (database,) = guarded.ids("AWS::EC2::Volume"), guarded.ids("AWS::RDS::DBInstance")
    assert guarded.gpucluster("down", typed=f"y\n{NAME}\n").returncode == 0
    kept_and_removed(guarded.cloud, volume, database)
