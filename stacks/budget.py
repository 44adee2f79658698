"""The month's money: an AWS budget, who is told, and what stops when it is spent.

The budget counts what carries the tag `gpucluster:cluster`. AWS counts by a tag only once the payer's account has
activated it as a cost allocation tag, in the billing console, and that only from then on. Costs reach AWS Budgets up
to a day late: an action at the limit is a late brake, no fuse.
"""

from __future__ import annotations

import hashlib

import aws_cdk as cdk
from aws_cdk import aws_budgets as budgets
from aws_cdk import aws_iam as iam
from constructs import Construct

from gpucluster.config import models
from stacks.context import Context
from stacks.roles import allow

TAG = "gpucluster:cluster"
TOLD_OF = (("ACTUAL", 50), ("ACTUAL", 80), ("ACTUAL", 100), ("FORECASTED", 100))
"""Kind and per cent of the limit."""

CfnBudget = budgets.CfnBudget
CfnAction = budgets.CfnBudgetsAction


class Budget(Construct):
    def __init__(self, scope: Construct, id_: str, *, context: Context, budget: models.Budget) -> None:
        super().__init__(scope, id_)
        config = context.config
        # Whom it tells cannot be changed in place, and a budget of the same name cannot be made beside it.
        digest = hashlib.sha256(repr((budget.email, TOLD_OF)).encode()).hexdigest()[:8]
        self.name = f"gpucluster-{config.name}-{config.region}-{digest}"
        self.budget = self._budget(config.name, budget)
        if budget.at_limit == "stop-launches" and budget.email:
            stop = StopLaunches(self, "StopLaunches", context=context, name=self.name, email=budget.email)
            stop.node.add_dependency(self.budget)

    def _budget(self, cluster: str, budget: models.Budget) -> CfnBudget:
        data = CfnBudget.BudgetDataProperty(
            budget_name=self.name,
            budget_type="COST",
            time_unit="MONTHLY",
            budget_limit=CfnBudget.SpendProperty(amount=budget.monthly_usd, unit="USD"),
            cost_filters={"TagKeyValue": [f"user:{TAG}${cluster}"]},
            # What credits pay for is spent all the same.
            cost_types=CfnBudget.CostTypesProperty(include_credit=False, include_refund=False),
        )
        told = _notifications(budget.email) if budget.email else None
        return CfnBudget(self, "Budget", budget=data, notifications_with_subscribers=told)


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
    """At the limit AWS Budgets forbids the head node to launch. Nodes that run go on, and so does the head.

    `gpucluster up` takes that back with more money (`gpucluster.cluster.budget_stop`); so does who reverses the action
    in the billing console, or with `aws budgets execute-budget-action`.
    """

    def __init__(self, scope: Construct, id_: str, *, context: Context, name: str, email: str) -> None:
        """`name`: the budget's."""
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
        # Their permissions, too: AWS tries the role as the action is made.
        action.node.add_dependency(self.role)

    def _policy(self, *, file_systems: bool) -> iam.ManagedPolicy:
        """Attached to nobody, until the budget is spent. `file_systems`: the head makes some, for jobs that would then
        wait for nodes, and keep them."""
        actions = ["ec2:RunInstances", "ec2:CreateFleet", *(["fsx:CreateFileSystem"] if file_systems else [])]
        deny = iam.PolicyStatement(effect=iam.Effect.DENY, actions=actions, resources=["*"])
        return iam.ManagedPolicy(self, "Policy", description="the month's budget is spent", statements=[deny])

    def _role(self, head_role: iam.Role) -> iam.Role:
        """What AWS Budgets acts as: it may do this one thing, for a budget of this account."""
        stack = cdk.Stack.of(self)
        budgets_arn = stack.format_arn(service="budgets", region="", resource="budget", resource_name="*")
        ours = {"StringEquals": {"aws:SourceAccount": stack.account}, "ArnLike": {"aws:SourceArn": budgets_arn}}
        principal = iam.ServicePrincipal("budgets.amazonaws.com", conditions=ours)
        role = iam.Role(self, "Role", assumed_by=principal)
        only_this = {"ArnEquals": {"iam:PolicyARN": self.policy.managed_policy_arn}}
        allow(role, ["iam:AttachRolePolicy", "iam:DetachRolePolicy"], [head_role.role_arn], only_this)
        return role
