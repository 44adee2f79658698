"""The nodes' log groups. They are deleted with the stack."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_logs as logs
from constructs import Construct

from gpucluster.render import watching
from stacks.context import Context
from stacks.encryption import key_arn


class Logs(Construct):
    def __init__(self, scope: Construct, id_: str, *, context: Context) -> None:
        super().__init__(scope, id_)
        config = context.config
        for log in watching.logs(config, "head", "compute"):
            group = logs.CfnLogGroup(
                self,
                log.capitalize(),
                log_group_name=watching.log_group(config.name, log),
                retention_in_days=config.monitoring.log_days,
                kms_key_id=key_arn(context.key),
            )
            group.apply_removal_policy(cdk.RemovalPolicy.DESTROY)
