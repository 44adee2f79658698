"""Lifts the stop of budget.at_limit: stop-launches after AWS Budgets has applied it to the head node.

The stop is a policy that AWS Budgets attaches to the head node's role. After that, the action does nothing more
until it is reversed and reset. Then it can act again when the month's budget is spent.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from gpucluster.cluster import stack

POLICY, ACTION = "BudgetStopLaunchesPolicy", "BudgetStopLaunchesAction"
"""The prefix of their logical ids."""
SETTLED_S = 60.0


@dataclass(frozen=True)
class BudgetStop:
    """The stop of one stack. Takes boto3 clients."""

    name: str
    cloudformation: Any
    iam: Any
    budgets: Any
    sts: Any
    tell: Callable[[str], None]

    @contextmanager
    def taken_back(self) -> Iterator[None]:
        """Reverses the stop while the body changes the budget. Afterwards the action can act again in any case."""
        stopped = bool(self._attached())
        self._reverse()
        self.detach()
        if stopped:
            self.tell("nodes can start again: the stop by AWS Budgets is reversed")
        try:
            yield
        finally:
            self._reset()

    def detach(self) -> None:
        """Detaches the policy from the role, because while attached neither can be deleted."""
        for policy, role in self._attached():
            self.iam.detach_role_policy(RoleName=role, PolicyArn=policy)

    def _attached(self) -> list[tuple[str, str]]:
        """Policies, and the names of the roles to which they are attached."""
        policies = stack.physical_ids(self.cloudformation, self.name, "AWS::IAM::ManagedPolicy", POLICY)
        return [
            (policy, role["RoleName"])
            for policy in policies
            for role in self.iam.list_entities_for_policy(PolicyArn=policy)["PolicyRoles"]
        ]

    def _reverse(self) -> None:
        for action in self._actions():
            if self._status(action) == "EXECUTION_SUCCESS":
                self._execute(action, "REVERSE_BUDGET_ACTION")

    def _reset(self) -> None:
        for action in self._actions():
            if self._status(action) == "REVERSE_SUCCESS":
                self._execute(action, "RESET_BUDGET_ACTION")
            status = self._status(action)
            if status not in ("STANDBY", "PENDING", "EXECUTION_SUCCESS"):
                self.tell(f"the budget's action is {status}: it may not stop launches again until you reset it")

    def _actions(self) -> list[dict[str, str]]:
        """The actions in the API's form. CloudFormation's id is `ActionId|BudgetName`."""
        found = stack.physical_ids(self.cloudformation, self.name, "AWS::Budgets::BudgetsAction", ACTION)
        account = self.sts.get_caller_identity()["Account"] if found else ""
        parts = [each.partition("|") for each in found]
        return [{"AccountId": account, "ActionId": action, "BudgetName": budget} for action, _, budget in parts]

    def _execute(self, action: dict[str, str], what: str) -> None:
        """Reports a refusal and continues: without the policy the head node can launch."""
        try:
            self.budgets.execute_budget_action(**action, ExecutionType=what)
        except self.budgets.exceptions.ClientError as error:
            self.tell(f"AWS Budgets: {error}")

    def _status(self, action: dict[str, str]) -> str:
        """The final status, or the one after a minute."""
        deadline = time.monotonic() + SETTLED_S
        while True:
            status: str = self.budgets.describe_budget_action(**action)["Action"]["Status"]
            if not status.endswith("_IN_PROGRESS") or time.monotonic() > deadline:
                return status
            time.sleep(1)
