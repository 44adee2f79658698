"""Monitoring: the nodes' log groups, a dashboard, and alarms."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct, IDependable

from stacks.context import Context
from stacks.monitoring import dashboard
from stacks.monitoring.alarms import Alarms
from stacks.monitoring.logs import Logs
from stacks.monitoring.metrics import FileSystem
from stacks.monitoring.permissions import grant_watching
from stacks.monitoring.refused import RefusedTraffic


class Monitoring(Construct):
    """Names no instance, so dashboard and alarms continue when another instance becomes the head node."""

    def __init__(
        self, scope: Construct, id_: str, *, context: Context, file_systems: tuple[FileSystem, ...] = ()
    ) -> None:
        super().__init__(scope, id_)
        config = context.config
        grant_watching(context)
        self.logs = Logs(self, "Logs", context=context)
        if not context.network.exists:
            RefusedTraffic(self, "RefusedTraffic", context=context)
        self.topic_arn = self._topic(context, config.monitoring.alarm_email)
        self.alarms = Alarms(self, "Alarms", config=config, topic_arn=self.topic_arn, file_systems=file_systems)
        if config.monitoring.dashboard:
            body = dashboard.body(config, file_systems, alarm_arns=self.alarms.arns)
            # Dashboards are global to the account, so the region is part of the name.
            name = f"gpucluster-{config.name}-{config.region}"
            text = cdk.Stack.of(self).to_json_string(body)
            cloudwatch.CfnDashboard(self, "Dashboard", dashboard_name=name, dashboard_body=text)

    def _topic(self, context: Context, email: str | None) -> str | None:
        if not email:
            return None
        from stacks.monitoring.topic import Topic

        return Topic(self, "Topic", context=context, email=email).arn

    def watch_from(self, live: IDependable) -> None:
        """No alarm before the cluster runs for the first time: a booting head node sends no heartbeat yet."""
        self.alarms.node.add_dependency(live)
