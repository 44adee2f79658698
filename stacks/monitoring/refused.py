"""The VPC's flow log, for rejected packets only.

It shows a port that a security group should open. Accepted packets are the nodes' own traffic, which is large and of no
use here.
"""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from constructs import Construct

from gpucluster.render import watching
from stacks.arns import arn
from stacks.context import Context

LOG = "refused-traffic"


class RefusedTraffic(Construct):
    """Only for a VPC that the stack creates; the owner of an existing VPC monitors it."""

    def __init__(self, scope: Construct, id_: str, *, context: Context) -> None:
        super().__init__(scope, id_)
        config = context.config
        group = logs.LogGroup(
            self,
            "Log",
            log_group_name=watching.log_group(config.name, LOG),
            encryption_key=context.key,
            removal_policy=cdk.RemovalPolicy.DESTROY,
        )
        # CDK's own type has only some of the numbers of days that CloudWatch accepts.
        days = group.node.default_child
        assert isinstance(days, logs.CfnLogGroup)
        days.retention_in_days = config.monitoring.log_days
        role = iam.Role(
            self,
            "Role",
            # Prevents the service from writing here for another account's VPC, as AWS recommends:
            # https://docs.aws.amazon.com/vpc/latest/userguide/flow-logs-iam-role.html
            assumed_by=iam.ServicePrincipal(
                "vpc-flow-logs.amazonaws.com",
                conditions={
                    "StringEquals": {"aws:SourceAccount": cdk.Stack.of(self).account},
                    "ArnLike": {"aws:SourceArn": arn(self, "ec2", "vpc-flow-log/*")},
                },
            ),
        )
        ec2.FlowLog(
            self,
            "FlowLog",
            resource_type=ec2.FlowLogResourceType.from_vpc(context.network.vpc),
            destination=ec2.FlowLogDestination.to_cloud_watch_logs(group, role),
            traffic_type=ec2.FlowLogTrafficType.REJECT,
        )
