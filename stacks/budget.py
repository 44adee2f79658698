"""The monthly budget: its notifications, and the stop of launches when it is spent.

The budget counts costs with the tag `gpucluster:cluster`. AWS counts by a tag only from the day on which the payer's
account has activated it as a cost allocation tag in the billing console. Costs reach AWS Budgets up to a day late, so
an action at the limit may come a day late too.
"""

from __future__ import annotations

import hashlib

import aws_cdk as cdk
from aws_cdk import aws_budgets as budgets
from aws_cdk import aws_iam as iam
from constructs import Construct

from gpucluster.config import models
from stacks.arns import arn
from stacks.context import Context
from stacks.roles import allow

TAG = "gpucluster:cluster"
TOLD_OF = (("ACTUAL", 50), ("ACTUAL", 80), ("ACTUAL", 100), ("FORECASTED", 100))
"""The kind of notification and its per cent of the limit."""

CfnBudget = budgets.CfnBudget
CfnAction = budgets.CfnBudgetsAction


class Budget(Construct):
    def __init__(self, scope: Construct, id_: str, *, context: Context, budget: models.Budget) -> None:
        super().__init__(scope, id_)
        config = context.config
        # Notifications cannot be changed in place, and a second budget cannot have the same name.
        digest = hashlib.sha256(repr((budget.email, TOLD_OF)).encode()).hexdigest()[:8]
        self.name = f"gpucluster-{config.name}-{config.region}-{digest}"
        self.budget = self._budget(config.name, budget)
        if budget.stops_launches and budget.email:
            stop = StopLaunches(self, "StopLaunches", context=context, name=self.name, email=budget.email)
            stop.node.add_dependency(self.budget)

    def _budget(self, cluster: str, budget: models.Budget) -> CfnBudget:
        data = CfnBudget.BudgetDataProperty(
            budget_name=self.name,
            budget_type="COST",
            time_unit="MONTHLY",
            budget_limit=CfnBudget.SpendProperty(amount=budget.monthly_usd, unit="USD"),
            cost_filters={"TagKeyValue": [f"user:{TAG}${cluster}"]},
            # Usage that credits pay for counts too.
            cost_types=CfnBudget.CostTypesProperty(include_credit=False, include_refund=False),
        )
        notifications = _notifications(budget.email) if budget.email else None
        return CfnBudget(self, "Budget", budget=data, notifications_with_subscribers=notifications)


def _notifications(email: str) -> list[CfnBudget.NotificationWithSubscribersProperty]:
    subscriber = CfnBudget.SubscriberProperty(subscription_type="EMAIL", address=email)
    return [
        CfnBudget.NotificationWithSubscribersProperty(
            notification=CfnBudget.NotificationProperty(
                notification_type=kind,
                comparison_operator="GREATER_THAN",
                threshold=percent,
                threshold_type="PERCENTAGE",
            ),
            subscribers=[subscriber],
        )
        for kind, percent in TOLD_OF
    ]


class StopLaunches(Construct):
    """At the limit AWS Budgets forbids the head node to launch instances. Running nodes and the head node continue.

    `gpucluster up` reverses this after the limit is raised (`gpucluster.cluster.budget_stop`). So does a user in the
    billing console, or with `aws budgets execute-budget-action`.
    """

    def __init__(self, scope: Construct, id_: str, *, context: Context, name: str, email: str) -> None:
        """`name`: the budget's name."""
        super().__init__(scope, id_)
        self.policy = self._policy(file_systems=bool(context.config.lustre_with_jobs))
        self.role = self._role(context.head_role)
        action = CfnAction(
            self,
            "Action",
            budget_name=name,
            action_type="APPLY_IAM_POLICY",
            notification_type="ACTUAL",
            action_threshold=CfnAction.ActionThresholdProperty(type="PERCENTAGE", value=100),
            approval_model="AUTOMATIC",
            execution_role_arn=self.role.role_arn,
            definition=CfnAction.DefinitionProperty(
                iam_action_definition=CfnAction.IamActionDefinitionProperty(
                    policy_arn=self.policy.managed_policy_arn, roles=[context.head_role.role_name]
                )
            ),
            subscribers=[CfnAction.SubscriberProperty(type="EMAIL", address=email)],
        )
        # The role's permissions must exist too, because AWS tries the role when it creates the action.
        action.node.add_dependency(self.role)

    def _policy(self, *, file_systems: bool) -> iam.ManagedPolicy:
        """Attached to no role until the budget is spent. `file_systems`: denies them too, because the head node would
        create them for jobs that then wait for nodes."""
        actions = ["ec2:RunInstances", "ec2:CreateFleet", *(["fsx:CreateFileSystem"] if file_systems else [])]
        deny = iam.PolicyStatement(effect=iam.Effect.DENY, actions=actions, resources=["*"])
        return iam.ManagedPolicy(self, "Policy", description="the month's budget is spent", statements=[deny])

    def _role(self, head_role: iam.Role) -> iam.Role:
        """The role that AWS Budgets assumes. It allows this one action, for a budget of this account."""
        stack = cdk.Stack.of(self)
        budgets_arn = arn(self, "budgets", "budget/*", region="")
        ours = {"StringEquals": {"aws:SourceAccount": stack.account}, "ArnLike": {"aws:SourceArn": budgets_arn}}
        principal = iam.ServicePrincipal("budgets.amazonaws.com", conditions=ours)
        role = iam.Role(self, "Role", assumed_by=principal)
        only_this = {"ArnEquals": {"iam:PolicyARN": self.policy.managed_policy_arn}}
        allow(role, ["iam:AttachRolePolicy", "iam:DetachRolePolicy"], [head_role.role_arn], only_this)
        return role
