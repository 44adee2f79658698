"""The receiver of alarms: an encrypted topic with a subscription by e-mail, which its owner confirms once."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct

from stacks.arns import arn
from stacks.context import Context
from stacks.encryption import grant_topic
from stacks.roles import allow

_CLOUDWATCH = "cloudwatch.amazonaws.com"


class Topic(Construct):
    def __init__(self, scope: Construct, id_: str, *, context: Context, email: str) -> None:
        super().__init__(scope, id_)
        self.key = context.key or self._key()
        self.topic = sns.Topic(
            self,
            "Topic",
            display_name=f"GpuCluster {context.config.name}",
            master_key=self.key,
            enforce_ssl=True,
        )
        self.topic.add_subscription(subscriptions.EmailSubscription(email))
        self.topic.add_to_resource_policy(
            iam.PolicyStatement(
                sid="AlarmsOfThisAccount",
                principals=[iam.ServicePrincipal(_CLOUDWATCH)],
                actions=["sns:Publish"],
                resources=[self.topic.topic_arn],
                conditions=self._our_alarms(),
            )
        )

        self._grant_notices(context)

    def _grant_notices(self, context: Context) -> None:
        """The head node publishes notices of jobs (bootstrap/gpucluster_node/mail/daemon.py)."""
        allow(context.head_role, ["sns:Publish"], [self.arn])
        grant_topic(context.head_role, self.key)
        context.parameters.add("Topic", "topic", {"arn": self.arn})

    @property
    def arn(self) -> str:
        return self.topic.topic_arn

    def _key(self) -> kms.Key:
        """AWS's own key for SNS does not admit CloudWatch, and its policy cannot be changed."""
        key = kms.Key(
            self,
            "Key",
            description="alarms of the cluster",
            enable_key_rotation=True,
            removal_policy=cdk.RemovalPolicy.DESTROY,
        )
        key.add_to_resource_policy(
            iam.PolicyStatement(
                sid="AlarmsOfThisAccount",
                principals=[iam.ServicePrincipal(_CLOUDWATCH)],
                actions=["kms:Decrypt", "kms:GenerateDataKey*"],
                resources=["*"],  # in a key's own policy, this means the key itself
                conditions=self._our_alarms(),
            )
        )
        return key

    def _our_alarms(self) -> dict[str, dict[str, str]]:
        """So that CloudWatch does not deliver another account's alarms here."""
        return {
            "StringEquals": {"aws:SourceAccount": cdk.Stack.of(self).account},
            "ArnLike": {"aws:SourceArn": arn(self, "cloudwatch", "alarm:*")},
        }
