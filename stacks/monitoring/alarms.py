"""Alarms: Slurm does not answer, disks fill up, EC2 refuses launches."""

from __future__ import annotations

from typing import Literal

from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from gpucluster.config import ClusterConfig
from stacks.monitoring.metrics import GIB, FileSystem, Metric, of_cluster, of_file_system, of_head

DISK_PERCENT = 85
FILE_SYSTEM_FREE = 0.1
HEARTBEAT_MINUTES = 5
REFUSED_MINUTES = 15

Missing = Literal["breaching", "notBreaching", "missing"]
Statistic = Literal["Average", "Minimum", "Maximum", "Sum"]


class Alarms(Construct):
    """An alarm for failed hardware of the head node, which recovers it, is in stacks/head.py."""

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        config: ClusterConfig,
        topic_arn: str | None,
        file_systems: tuple[FileSystem, ...],
    ) -> None:
        super().__init__(scope, id_)
        self._cluster = config.name
        self._actions = [topic_arn] if topic_arn else None
        self.arns: list[str] = []
        self._heartbeat()
        self._disk("RootDisk", "root", "/", "the head node's root disk")
        holds = f"{'/home and ' if config.volume_mount == '/home' else ''}Slurm's state"
        self._disk("HomeDisk", "home", config.volume_mount, f"the head node's data volume, which holds {holds},")
        self._refused()
        for file_system in file_systems:
            self._file_system(file_system)

    def _heartbeat(self) -> None:
        """The publisher sends the metric only while slurmctld answers and the data volume exists."""
        self._alarm(
            "Heartbeat",
            "slurm-silent",
            f"slurmctld has not answered for {HEARTBEAT_MINUTES} minutes, or the head node is down, or without its "
            "data volume",
            of_cluster(self._cluster, "Heartbeat"),
            "Sum",
            "LessThanThreshold",
            1,
            periods=HEARTBEAT_MINUTES,
            missing="breaching",
        )

    def _disk(self, id_: str, name: str, path: str, what: str) -> None:
        self._alarm(
            id_,
            f"{name}-disk-full",
            f"{what} is more than {DISK_PERCENT} % full",
            of_head(self._cluster, "disk_used_percent", path=path),
            "Maximum",
            "GreaterThanThreshold",
            DISK_PERCENT,
            periods=5,
            missing="missing",
        )

    def _refused(self) -> None:
        self._alarm(
            "LaunchFailures",
            "launches-refused",
            f"EC2 has refused to launch nodes for {REFUSED_MINUTES} minutes: the dashboard shows its error codes",
            of_cluster(self._cluster, "LaunchFailures"),
            "Sum",
            "GreaterThanOrEqualToThreshold",
            1,
            periods=REFUSED_MINUTES // 5,
            period_s=300,
            missing="notBreaching",
        )

    def _file_system(self, file_system: FileSystem) -> None:
        slug = file_system.mount.strip("/").replace("/", "-")
        self._alarm(
            f"FileSystem{''.join(part.capitalize() for part in slug.split('-'))}",
            f"{slug}-full",
            f"{file_system.mount} has less than {FILE_SYSTEM_FREE:.0%} of its space free",
            of_file_system(file_system, "FreeDataStorageCapacity"),
            "Sum",  # the sum over the storage targets, each of which reports once a minute
            "LessThanThreshold",
            int(file_system.capacity_gib * GIB * FILE_SYSTEM_FREE),
            periods=5,
            missing="missing",
        )

    def _alarm(
        self,
        id_: str,
        name: str,
        description: str,
        metric: Metric,
        statistic: Statistic,
        comparison: str,
        threshold: float,
        *,
        periods: int,
        missing: Missing,
        period_s: int = 60,
    ) -> None:
        """In alarm if all of this many periods are beyond the threshold."""
        dimensions = [
            cloudwatch.CfnAlarm.DimensionProperty(name=key, value=value) for key, value in metric.dimensions.items()
        ]
        alarm = cloudwatch.CfnAlarm(
            self,
            id_,
            alarm_name=f"{self._cluster}-{name}",
            alarm_description=f"GpuCluster {self._cluster}: {description}",
            namespace=metric.namespace,
            metric_name=metric.name,
            dimensions=dimensions,
            statistic=statistic,
            comparison_operator=comparison,
            threshold=threshold,
            period=period_s,
            evaluation_periods=periods,
            treat_missing_data=missing,
            alarm_actions=self._actions,
            ok_actions=self._actions,
        )
        self.arns.append(alarm.attr_arn)
