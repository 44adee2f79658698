"""Budgets and their actions."""

from __future__ import annotations

from typing import Any

from localcloud.cloudformation.resources.registry import Call, Handler, Made, Properties, only, resource, tag_list


@resource("AWS::Budgets::Budget", updatable="Budget ResourceTags")
class Budget(Handler):
    """A new name or other subscribers replace a budget; its filters change in place."""

    def create(self, call: Call, properties: Properties) -> Made:
        budget = {"BudgetName": call.name(100), **properties["Budget"]}
        notifications = [
            {"Notification": item["Notification"], "Subscribers": item.get("Subscribers") or []}
            for item in properties.get("NotificationsWithSubscribers") or []
        ]
        call.api(
            "budgets",
            "create_budget",
            AccountId=call.account_id,
            Budget=budget,
            NotificationsWithSubscribers=notifications or None,
        )
        return Made(str(budget["BudgetName"]))

    def replaces_for(self, name: str, old: Any, new: Any) -> bool:
        return name == "Budget" and old.get("BudgetName") != new.get("BudgetName")

    def update(self, call: Call, physical_id: str, old: Properties, new: Properties) -> Made:
        budget = {**new["Budget"], "BudgetName": physical_id}
        call.api("budgets", "update_budget", AccountId=call.account_id, NewBudget=budget)
        return Made(physical_id)

    def delete(self, call: Call, physical_id: str, properties: Properties) -> None:
        call.api("budgets", "delete_budget", AccountId=call.account_id, BudgetName=physical_id)


@resource(
    "AWS::Budgets::BudgetsAction",
    updatable="ActionThreshold ApprovalModel Definition ExecutionRoleArn NotificationType ResourceTags Subscribers",
)
class BudgetsAction(Handler):
    def create(self, call: Call, properties: Properties) -> Made:
        given = {
            **only(properties, "BudgetName", "ActionType"),
            **_changeable(properties),
            "ResourceTags": tag_list(call, {"Tags": properties.get("ResourceTags")}),
        }
        action_id = call.api("budgets", "create_budget_action", given, AccountId=call.account_id)["ActionId"]
        return Made(f"{action_id}|{properties['BudgetName']}", {"ActionId": action_id})

    def update(self, call: Call, physical_id: str, old: Properties, new: Properties) -> Made:
        call.api("budgets", "update_budget_action", {**_changeable(new), **_which(call, physical_id)})
        return Made(physical_id, {"ActionId": physical_id.partition("|")[0]})

    def delete(self, call: Call, physical_id: str, properties: Properties) -> None:
        call.api("budgets", "delete_budget_action", _which(call, physical_id))


def _which(call: Call, physical_id: str) -> dict[str, str]:
    action_id, _, budget = physical_id.partition("|")
    return {"AccountId": call.account_id, "BudgetName": budget, "ActionId": action_id}


def _changeable(properties: Properties) -> dict[str, Any]:
    """With the API's names for CloudFormation's Type and Value."""
    threshold = properties["ActionThreshold"]
    return {
        **only(properties, "Definition", "ExecutionRoleArn", "NotificationType"),
        "ApprovalModel": properties.get("ApprovalModel", "MANUAL"),
        "ActionThreshold": {"ActionThresholdType": threshold["Type"], "ActionThresholdValue": threshold["Value"]},
        "Subscribers": [
            {"SubscriptionType": each["Type"], "Address": each["Address"]} for each in properties["Subscribers"]
        ],
    }
