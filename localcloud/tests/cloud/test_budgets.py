"""Budget actions of the local cloud: who runs them, and their effect on a role."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

ACCOUNT = "123456789012"
BUDGET = "spent"
DENY = {"Version": "2012-10-17", "Statement": [{"Effect": "Deny", "Action": "ec2:RunInstances", "Resource": "*"}]}


def trusting(service: str) -> str:
    statement = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Service": service}}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


@pytest.fixture
def roles(control_plane: Any) -> Iterator[dict[str, str]]:
    iam = control_plane.client("iam")
    made = {
        name: iam.create_role(RoleName=name, AssumeRolePolicyDocument=trusting(service))["Role"]["Arn"]
        for name, service in (("spender", "ec2.amazonaws.com"), ("executor", "budgets.amazonaws.com"))
    }
    policy = iam.create_policy(PolicyName="stop", PolicyDocument=json.dumps(DENY))["Policy"]["Arn"]
    limit = {"Amount": "100", "Unit": "USD"}
    budgets = control_plane.client("budgets")
    budgets.create_budget(
        AccountId=ACCOUNT,
        Budget={"BudgetName": BUDGET, "BudgetType": "COST", "TimeUnit": "MONTHLY", "BudgetLimit": limit},
    )
    yield {**made, "policy": policy}
    budgets.delete_budget(AccountId=ACCOUNT, BudgetName=BUDGET)
    iam.delete_policy(PolicyArn=policy)
    for name in made:
        iam.delete_role(RoleName=name)


def make_action(control_plane: Any, roles: dict[str, str], executor: str) -> str:
    made = control_plane.client("budgets").create_budget_action(
        AccountId=ACCOUNT,
        BudgetName=BUDGET,
        NotificationType="ACTUAL",
        ActionType="APPLY_IAM_POLICY",
        ActionThreshold={"ActionThresholdType": "PERCENTAGE", "ActionThresholdValue": 100},
        Definition={"IamActionDefinition": {"PolicyArn": roles["policy"], "Roles": ["spender"]}},
        ExecutionRoleArn=roles[executor],
        ApprovalModel="AUTOMATIC",
        Subscribers=[{"SubscriptionType": "EMAIL", "Address": "a@example.com"}],
    )
    return str(made["ActionId"])


def test_a_budget_action_attaches_its_policy_and_detaches_it(control_plane: Any, roles: dict[str, str]) -> None:
    budgets, iam = control_plane.client("budgets"), control_plane.client("iam")
    action = {"AccountId": ACCOUNT, "BudgetName": BUDGET, "ActionId": make_action(control_plane, roles, "executor")}

    def attached() -> list[str]:
        return [each["PolicyArn"] for each in iam.list_attached_role_policies(RoleName="spender")["AttachedPolicies"]]

    assert attached() == []
    with pytest.raises(ClientError, match="STANDBY"):
        budgets.execute_budget_action(**action, ExecutionType="REVERSE_BUDGET_ACTION")
    budgets.execute_budget_action(**action, ExecutionType="APPROVE_BUDGET_ACTION")
    assert attached() == [roles["policy"]]
    assert budgets.describe_budget_action(**action)["Action"]["Status"] == "EXECUTION_SUCCESS"
    budgets.execute_budget_action(**action, ExecutionType="REVERSE_BUDGET_ACTION")
    assert attached() == []
    budgets.delete_budget_action(**action)
    assert budgets.describe_budget_actions_for_budget(AccountId=ACCOUNT, BudgetName=BUDGET)["Actions"] == []


def test_a_role_that_budgets_cannot_assume_is_refused(control_plane: Any, roles: dict[str, str]) -> None:
    with pytest.raises(ClientError, match="cannot assume"):
        make_action(control_plane, roles, "spender")
