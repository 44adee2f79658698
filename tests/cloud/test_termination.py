"""A protected cluster that keeps all its data: what prevents its deletion, and what remains after it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests import warm
from tests.cloud.played_head import Head

ROOT = Path(__file__).resolve().parents[2]
NAME = "Guarded"
CLUSTER = """
name: Guarded
region: us-east-1
head_node: {instance_type: m6i.large, volume_gib: 20, on_delete: retain, termination_protection: true}
partitions: [{name: train, instance_types: [g5.12xlarge], max_nodes: 2}]
accounting: rds
budget: {monthly_usd: 90000, email: a@b.example, at_limit: stop-launches}
"""


@dataclass
class Cluster:
    file: Path
    cloud: Any

    def gpucluster(self, *arguments: str, typed: str | None = None) -> subprocess.CompletedProcess[str]:
        """`typed`: at a terminal; None: there is none."""
        if typed is None:
            return warm.gpucluster("-c", str(self.file), *arguments)
        argv = [sys.executable, "-m", "gpucluster.cli", "-c", str(self.file), *arguments]
        ours, theirs = os.openpty()
        try:
            os.write(ours, typed.encode())
            return subprocess.run(
                argv, cwd=ROOT, capture_output=True, text=True, timeout=200, check=False, stdin=theirs
            )
        finally:
            os.close(ours)
            os.close(theirs)

    def status(self) -> str | None:
        from gpucluster.cluster import stack

        return stack.status(self.cloud.client("cloudformation"), NAME)

    def ids(self, resource_type: str) -> list[str]:
        from gpucluster.cluster import stack

        return stack.physical_ids(self.cloud.client("cloudformation"), NAME, resource_type)

    def protected(self) -> tuple[bool, bool, bool]:
        """Stack, head node, database."""
        described = self.cloud.client("cloudformation").describe_stacks(StackName=NAME)["Stacks"][0]
        (head,), (database,) = self.ids("AWS::EC2::Instance"), self.ids("AWS::RDS::DBInstance")
        attribute = self.cloud.client("ec2").describe_instance_attribute(
            InstanceId=head, Attribute="disableApiTermination"
        )
        found = self.cloud.client("rds").describe_db_instances(DBInstanceIdentifier=database)["DBInstances"][0]
        return (
            described["EnableTerminationProtection"],
            attribute["DisableApiTermination"]["Value"],
            found["DeletionProtection"],
        )


@pytest.fixture
def guarded(control_plane: Any, tmp_path: Path) -> Iterator[Cluster]:
    from gpucluster.cluster import local_cloud

    found = Cluster(tmp_path / "cluster.yaml", control_plane)
    found.file.write_text(CLUSTER)
    local_cloud.write(
        found.file, NAME, local_cloud.Record(control_plane.endpoint_url, "default", False, control_plane.secret)
    )
    yield found
    if found.status():
        found.gpucluster("down", typed=f"y\n{NAME}\n")


def test_a_protected_cluster_is_deleted_only_after_its_name_is_typed(guarded: Cluster) -> None:
    with Head(guarded.cloud, NAME):
        up = guarded.gpucluster("up")
        assert up.returncode == 0, up.stderr
    (volume,), (database,) = guarded.ids("AWS::EC2::Volume"), guarded.ids("AWS::RDS::DBInstance")
    assert guarded.protected() == (True, True, True)

    for done in (guarded.gpucluster("down", "--yes"), guarded.gpucluster("down", typed="y\nSomethingElse\n")):
        assert done.returncode == 2, done.stderr
        assert "termination_protection" in done.stderr
    assert guarded.protected() == (True, True, True)

    named_before_anything_is_deleted(guarded)
    _spend_the_budget(guarded.cloud)
    down = guarded.gpucluster("down", typed=f"y\n{NAME}\n")
    assert down.returncode == 0, down.stderr
    assert f"the head node's volume {volume} (head_node.on_delete: retain)" in down.stderr
    assert "a final snapshot of the accounting database" in down.stderr
    assert guarded.status() is None
    kept_and_removed(guarded.cloud, volume, database)


def named_before_anything_is_deleted(guarded: Cluster) -> None:
    """An instance of the user's own in the cluster's subnet."""
    ec2, (head,) = guarded.cloud.client("ec2"), guarded.ids("AWS::EC2::Instance")
    found = ec2.describe_instances(InstanceIds=[head])["Reservations"][0]["Instances"][0]
    launch = {"ImageId": found["ImageId"], "InstanceType": "m5.large", "SubnetId": found["SubnetId"]}
    mine = ec2.run_instances(**launch, MinCount=1, MaxCount=1)["Instances"][0]["InstanceId"]
    done = guarded.gpucluster("down", typed=f"y\n{NAME}\n")
    assert done.returncode == 2, done.stderr
    (line,) = [each for each in done.stderr.splitlines() if each.startswith("error:")]
    assert line.endswith(f"cannot be deleted while others use its network: instance {mine} in {found['SubnetId']}")
    assert "nothing was deleted: delete or move these first" in done.stderr
    assert guarded.protected() == (True, True, True)
    ec2.terminate_instances(InstanceIds=[mine])


def _spend_the_budget(cloud: Any) -> None:
    """The policy stays attached to the head node's role, so IAM deletes neither."""
    budgets = cloud.client("budgets")
    (action,) = budgets.describe_budget_actions_for_account(AccountId="123456789012")["Actions"]
    which = {"AccountId": "123456789012", "BudgetName": action["BudgetName"], "ActionId": action["ActionId"]}
    budgets.execute_budget_action(**which, ExecutionType="APPROVE_BUDGET_ACTION")


def kept_and_removed(cloud: Any, volume: str, database: str) -> None:
    """Checks that the volume and a snapshot of the database exist, and deletes both for other tests."""
    ec2, rds = cloud.client("ec2"), cloud.client("rds")
    assert ec2.describe_volumes(VolumeIds=[volume])["Volumes"][0]["State"] == "available"
    ec2.delete_volume(VolumeId=volume)
    (snapshot,) = rds.describe_db_snapshots(DBInstanceIdentifier=database)["DBSnapshots"]
    assert snapshot["Encrypted"] is True
    rds.delete_db_snapshot(DBSnapshotIdentifier=snapshot["DBSnapshotIdentifier"])
