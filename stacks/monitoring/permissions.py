"""Permissions of nodes in CloudWatch: to write to their own log groups and namespaces only.

With this configuration the agent needs no ec2:Describe*: it reads the instance's id from the metadata, and measures
neither scaling groups nor volumes.
"""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_iam as iam

from gpucluster.render import watching
from stacks.context import Context
from stacks.roles import allow

_SHIP = ("logs:CreateLogStream", "logs:PutLogEvents")


def grant_watching(context: Context) -> None:
    namespace = watching.node_namespace(context.config.name)
    _grant(context, context.head_role, "head", (watching.NAMESPACE, namespace))
    _grant(context, context.compute_role, "compute", (namespace,))


def _grant(context: Context, role: iam.Role, node: watching.Role, namespaces: tuple[str, ...]) -> None:
    stack = cdk.Stack.of(role)
    groups = [watching.log_group(context.config.name, log) for log in watching.shippable(node)]
    arns = [
        # The streams, and the group in the form of AWS's policies.
        stack.format_arn(
            service="logs",
            resource="log-group",
            resource_name=f"{group}:*",
            arn_format=cdk.ArnFormat.COLON_RESOURCE_NAME,
        )
        for group in groups
    ]
    allow(role, list(_SHIP), arns)
    # AWS has no resource for this action; only the namespace limits it.
    allow(role, ["cloudwatch:PutMetricData"], ["*"], {"StringEquals": {"cloudwatch:namespace": list(namespaces)}})
