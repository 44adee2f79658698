"""Permissions of nodes in CloudWatch: to write to their own log groups and namespaces only.

With this configuration the agent needs no ec2:Describe*: it reads the instance's id from the metadata, and measures
neither scaling groups nor volumes.
"""

from __future__ import annotations

from aws_cdk import aws_iam as iam

from gpucluster.render import watching
from stacks.arns import arn
from stacks.context import Context
from stacks.roles import allow

_SHIP = ("logs:CreateLogStream", "logs:PutLogEvents")


def grant_watching(context: Context) -> None:
    namespace = watching.node_namespace(context.config.name)
    _grant(context, context.head_role, "head", (watching.NAMESPACE, namespace))
    _grant(context, context.compute_role, "compute", (namespace,))


def _grant(context: Context, role: iam.Role, node: watching.Role, namespaces: tuple[str, ...]) -> None:
    groups = [watching.log_group(context.config.name, log) for log in watching.shippable(node)]
    # The streams, and the group in the form of AWS's policies.
    arns = [arn(role, "logs", f"log-group:{group}:*") for group in groups]
    allow(role, list(_SHIP), arns)
    # AWS has no resource for this action; only the namespace limits it.
    allow(role, ["cloudwatch:PutMetricData"], ["*"], {"StringEquals": {"cloudwatch:namespace": list(namespaces)}})
