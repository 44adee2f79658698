"""Launches that AWS Budgets has stopped: which changes of cluster.yaml allow them again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gpucluster.cluster import local_cloud, stack
from tests import warm
from tests.cloud.played_head import Head

SUBJECTS = [
    "gpucluster/cluster/budget_stop.py",
    "gpucluster/cluster/deployment.py",
    "gpucluster/cli/up.py",
    "gpucluster/updates/rules.py",
    "stacks/budget.py",
    "localcloud/*/budgets.py",
]
COVERED_BY = (
    "test_budgets.py, test_update_table.py, test_node_budget_stop.py, test_node_spending.py, test_head_spending.py"
)
ACCOUNT = "123456789012"
NAME = "Spent"
CLUSTER = f"""
name: {NAME}
region: us-east-1
head_node: {{instance_type: m6i.large, volume_gib: 20, on_delete: delete}}
partitions: [{{name: train, instance_types: [g5.12xlarge], max_nodes: 2}}]
"""
BUDGET = "budget: {{monthly_usd: {usd}, email: {email}, at_limit: {at_limit}}}\n"


@dataclass
class Cluster:
    file: Path
    cloud: Any

    def describe(self, *, usd: int = 90000, email: str = "a@b.example", at_limit: str = "stop-launches") -> None:
        self.file.write_text(CLUSTER + BUDGET.format(usd=usd, email=email, at_limit=at_limit))

    def gpucluster(self, *arguments: str) -> str:
        """What it said."""
        done = warm.gpucluster("-c", str(self.file), *arguments)
        assert done.returncode == 0, done.stderr
        return done.stderr

    def action(self) -> dict[str, Any]:
        found: list[dict[str, Any]]
        found = self.cloud.client("budgets").describe_budget_actions_for_account(AccountId=ACCOUNT)["Actions"]
        (ours,) = (each for each in found if each["BudgetName"].startswith(f"gpucluster-{NAME}-"))
        return ours

    def spend(self) -> None:
        action = self.action()
        which = {"AccountId": ACCOUNT, "BudgetName": action["BudgetName"], "ActionId": action["ActionId"]}
        self.cloud.client("budgets").execute_budget_action(**which, ExecutionType="APPROVE_BUDGET_ACTION")
        assert self.stopped()

    def stopped(self) -> bool:
        cloudformation, iam = self.cloud.client("cloudformation"), self.cloud.client("iam")
        roles = stack.physical_ids(cloudformation, NAME, "AWS::IAM::Role", "HeadRole")
        attached = [
            each for role in roles for each in iam.list_attached_role_policies(RoleName=role)["AttachedPolicies"]
        ]
        return any("BudgetStopLaunches" in each["PolicyName"] for each in attached)


@pytest.fixture
def spent(control_plane: Any, tmp_path: Path) -> Iterator[Cluster]:
    found = Cluster(tmp_path / "cluster.yaml", control_plane)
    found.describe()
    local_cloud.write(
        found.file, NAME, local_cloud.Record(control_plane.endpoint_url, "default", False, control_plane.secret)
    )
    yield found
    if stack.status(control_plane.client("cloudformation"), NAME):
        found.gpucluster("down", "--yes")


def test_a_change_of_the_budget_allows_launches_again_and_keeps_the_action(spent: Cluster) -> None:
    with Head(spent.cloud, NAME):
        spent.gpucluster("up")
        spent.spend()
        spent.describe(usd=80000)
        assert "if it has stopped launches" not in spent.gpucluster("up")
        assert spent.stopped(), "less money is no reason to go on"

        spent.describe(usd=95000)
        assert "if it has stopped launches, nodes can start again" in spent.gpucluster("up")
        assert not spent.stopped()
        assert spent.action()["Status"] == "STANDBY", "it acts again at the new limit"

        spent.spend()
        spent.describe(usd=95000, email="c@d.example")
        spent.gpucluster("up")
        assert not spent.stopped()

        spent.spend()
        spent.describe(usd=95000, email="c@d.example", at_limit="notify")
        spent.gpucluster("up")
        assert not spent.stopped()
        cloudformation = spent.cloud.client("cloudformation")
        assert stack.status(cloudformation, NAME) == "UPDATE_COMPLETE"
        assert "AWS::IAM::ManagedPolicy" not in [
            event.type for event in stack.events(cloudformation, NAME) if event.status == "DELETE_FAILED"
        ]
