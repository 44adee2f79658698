"""Changes of budgets, and budget actions, which moto lacks. Nothing costs anything in this cloud, so no threshold is
reached and an action runs only when somebody calls ExecuteBudgetAction."""

from __future__ import annotations

import json
import uuid
from typing import Any

import moto.budgets.urls
from moto.budgets.exceptions import NotFoundException
from moto.budgets.responses import BudgetsResponse
from moto.core.exceptions import JsonRESTError
from moto.iam.models import iam_backends

# Status of an action -> the execution types that ExecuteBudgetAction accepts, with the status after each.
_STEPS = {
    "STANDBY": {"APPROVE_BUDGET_ACTION": "EXECUTION_SUCCESS"},
    "EXECUTION_SUCCESS": {"REVERSE_BUDGET_ACTION": "REVERSE_SUCCESS"},
    "REVERSE_SUCCESS": {"RESET_BUDGET_ACTION": "STANDBY"},
}
_KEPT = (
    "BudgetName",
    "NotificationType",
    "ActionType",
    "ActionThreshold",
    "Definition",
    "ExecutionRoleArn",
    "ApprovalModel",
    "Subscribers",
)

Action = dict[str, Any]


def install() -> None:
    moto.budgets.urls.url_paths["{0}/$"] = Budgets.dispatch


class Budgets(BudgetsResponse):
    _actions: dict[str, Action] = {}

    def update_budget(self) -> str:
        request = json.loads(self.body)
        new = request["NewBudget"]
        self.backend.describe_budget(request["AccountId"], new["BudgetName"])
        self.backend.budgets[request["AccountId"]][new["BudgetName"]].budget.update(new)
        return json.dumps({})

    def delete_budget(self) -> str:
        """Also deletes its actions."""
        name = json.loads(self.body)["BudgetName"]
        for action_id in [key for key, action in self._actions.items() if action["BudgetName"] == name]:
            del self._actions[action_id]
        return super().delete_budget()

    def create_budget_action(self) -> str:
        request = json.loads(self.body)
        self.backend.describe_budget(request["AccountId"], request["BudgetName"])
        self._must_trust_budgets(request["ExecutionRoleArn"])
        action_id = str(uuid.uuid4())
        shown = {key: request[key] for key in _KEPT}
        self._actions[action_id] = {"ActionId": action_id, "Status": "STANDBY", **shown}
        return self._named(action_id)

    def describe_budget_action(self) -> str:
        action = self._action()
        return json.dumps({**self._who(action), "Action": action})

    def describe_budget_actions_for_budget(self) -> str:
        name = json.loads(self.body)["BudgetName"]
        return json.dumps({"Actions": [each for each in self._actions.values() if each["BudgetName"] == name]})

    def describe_budget_actions_for_account(self) -> str:
        return json.dumps({"Actions": list(self._actions.values())})

    def update_budget_action(self) -> str:
        request, action = json.loads(self.body), self._action()
        if "ExecutionRoleArn" in request:
            self._must_trust_budgets(request["ExecutionRoleArn"])
        old = dict(action)
        action.update({key: request[key] for key in _KEPT if key in request})
        return json.dumps({**self._who(action), "OldAction": old, "NewAction": action})

    def delete_budget_action(self) -> str:
        action = self._action()
        del self._actions[action["ActionId"]]
        return json.dumps({**self._who(action), "Action": action})

    def execute_budget_action(self) -> str:
        """Accepts an approval at any time, so that an action can be tried; AWS requires the status PENDING."""
        wish, action = json.loads(self.body)["ExecutionType"], self._action()
        after = _STEPS.get(action["Status"], {}).get(wish)
        if after is None:
            raise JsonRESTError("ResourceLockedException", f"{wish} is not possible while it is {action['Status']}")
        self._apply(action, wish)
        action["Status"] = after
        return self._named(action["ActionId"], ExecutionType=wish)

    def _apply(self, action: Action, wish: str) -> None:
        definition = action["Definition"].get("IamActionDefinition")
        if definition is None or wish == "RESET_BUDGET_ACTION":
            return
        iam = iam_backends[self.current_account][self.partition]
        change = iam.attach_role_policy if wish == "APPROVE_BUDGET_ACTION" else iam.detach_role_policy
        for role in definition.get("Roles") or []:
            change(definition["PolicyArn"], role)

    def _must_trust_budgets(self, role_arn: str) -> None:
        roles = iam_backends[self.current_account][self.partition].roles.values()
        trust = next((str(role.assume_role_policy_document) for role in roles if role.arn == role_arn), "")
        if "budgets.amazonaws.com" not in trust:
            raise JsonRESTError("InvalidParameterException", f"AWS Budgets cannot assume the role {role_arn}")

    def _action(self) -> Action:
        action_id = json.loads(self.body)["ActionId"]
        if action_id not in self._actions:
            raise NotFoundException(f"Unable to find the action {action_id}")
        return self._actions[action_id]

    def _who(self, action: Action) -> dict[str, str]:
        return {"AccountId": self.current_account, "BudgetName": action["BudgetName"]}

    def _named(self, action_id: str, **more: str) -> str:
        return json.dumps({**self._who(self._actions[action_id]), "ActionId": action_id, **more})
