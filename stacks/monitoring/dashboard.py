"""The cluster's dashboard, as JSON for CloudWatch.

It uses searches instead of lists of metrics, so nodes may change, and the text has the same length for 2 partitions and
for 50.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

from gpucluster.config import ClusterConfig
from gpucluster.render import watching
from stacks.monitoring.metrics import FileSystem, Metric, of_cluster, of_file_system, of_head

Widget = dict[str, Any]
COLUMNS = 3
WIDTH = 24 // COLUMNS
HEIGHT = 6


def body(config: ClusterConfig, file_systems: Sequence[FileSystem], *, alarm_arns: Sequence[str]) -> dict[str, Any]:
    plots = chain(_slurm(config), _nodes(config), _head(config), *(_file_system(config, each) for each in file_systems))
    widgets = [_alarms(alarm_arns)]
    for number, plot in enumerate(plots):
        row, column = divmod(number, COLUMNS)
        widgets.append({**plot, "x": column * WIDTH, "y": 2 + row * HEIGHT, "width": WIDTH, "height": HEIGHT})
    below = 2 + HEIGHT * -(-(len(widgets) - 1) // COLUMNS)
    return {"widgets": [*widgets, _failed_boots(config, below)]}


def _slurm(config: ClusterConfig) -> Iterator[Widget]:
    yield _plot(config, "Nodes by state", [_by(config, "NodesByState", "State")], stacked=True)
    yield _plot(config, "Jobs by state", [_by(config, "JobsByState", "State")], stacked=True)
    failures = [_by(config, "LaunchFailures", "Code", "Sum", 300)]
    yield _plot(config, "Refused launches by EC2's code", failures, stacked=True, period_s=300)
    spend = [_by(config, "UsdPerHour", "Partition", "Average", 300)]
    yield _plot(config, "List price of running nodes, USD per hour", spend, stacked=True, period_s=300)


def _nodes(config: ClusterConfig) -> Iterator[Widget]:
    def each(metric: str, statistic: str = "Average", dimension: str = "Node") -> list[Any]:
        term = f'{{"{watching.node_namespace(config.name)}",{dimension}}} MetricName="{metric}"'
        return _search(term, statistic, 60, f"${{PROP('Dim.{dimension}')}}")

    yield _plot(config, "GPU utilisation, %: mean of a node's", [each("nvidia_smi_utilization_gpu")], most=100)
    slowest = [each("nvidia_smi_utilization_gpu", "Minimum")]
    yield _plot(config, "GPU utilisation, %: slowest of a node's", slowest, most=100)
    yield _plot(config, "GPU memory used, MiB: fullest of a node's", [each("nvidia_smi_memory_used", "Maximum")])
    yield _plot(config, "EFA sent, bytes a minute", [each("efa_tx_bytes", "Sum", "InstanceId")])
    yield _plot(config, "EFA received, bytes a minute", [each("efa_rx_bytes", "Sum", "InstanceId")])
    trouble = [each("efa_retrans_pkts", "Sum", "InstanceId"), each("efa_rx_dropped", "Sum", "InstanceId")]
    yield _plot(config, "EFA packets retransmitted or dropped", trouble)
    yield _plot(config, "Memory used, %", [each("mem_used_percent", "Maximum")], most=100)


def _head(config: ClusterConfig) -> Iterator[Widget]:
    processor = of_head(config.name, "cpu_usage_active", cpu="cpu-total")
    yield _plot(config, "Head node: processor, %", [_metric(processor, "busy")], most=100)
    paths = ("/", config.volume_mount)
    disks = [_metric(of_head(config.name, "disk_used_percent", path=path), path, "Maximum") for path in paths]
    yield _plot(config, "Head node: disks, % used", disks, most=100)
    beat = of_cluster(config.name, "Heartbeat")
    yield _plot(config, "slurmctld answers", [_metric(beat, "a minute", "Sum")])


def _file_system(config: ClusterConfig, file_system: FileSystem) -> Iterator[Widget]:
    moved = [
        _metric(of_file_system(file_system, f"Data{way}Bytes"), f"{way.lower()} a minute", "Sum")
        for way in ("Read", "Write")
    ]
    yield _plot(config, f"{file_system.mount}: bytes moved", moved)
    free = _metric(of_file_system(file_system, "FreeDataStorageCapacity"), "free", "Sum")
    yield _plot(config, f"{file_system.mount}: bytes free", [free])


def _by(config: ClusterConfig, metric: str, label: str, statistic: str = "Maximum", period_s: int = 60) -> list[Any]:
    dimensions = "Cluster,Partition" if label == "Partition" else f"Cluster,Partition,{label}"
    prefix = "" if label == "Partition" else "${PROP('Dim.Partition')} "
    term = f'{{{watching.NAMESPACE},{dimensions}}} MetricName="{metric}" Cluster="{config.name}"'
    return _search(term, statistic, period_s, f"{prefix}${{PROP('Dim.{label}')}}")


def _search(term: str, statistic: str, period_s: int, label: str) -> list[Any]:
    return [{"expression": f"SEARCH('{term}', '{statistic}', {period_s})", "label": label}]


def _metric(metric: Metric, label: str, statistic: str = "Average") -> list[Any]:
    dimensions = chain.from_iterable(metric.dimensions.items())
    return [metric.namespace, metric.name, *dimensions, {"label": label, "stat": statistic}]


def _plot(
    config: ClusterConfig,
    title: str,
    metrics: Sequence[list[Any]],
    *,
    stacked: bool = False,
    most: int | None = None,
    period_s: int = 60,
) -> Widget:
    left = {"min": 0} | ({"max": most} if most else {})
    properties = {
        "title": title,
        "region": config.region,
        "view": "timeSeries",
        "stacked": stacked,
        "period": period_s,
        "metrics": list(metrics),
        "yAxis": {"left": left},
    }
    return {"type": "metric", "properties": properties}


def _alarms(arns: Sequence[str]) -> Widget:
    properties = {"title": "Alarms", "alarms": list(arns)}
    return {"type": "alarm", "x": 0, "y": 0, "width": 24, "height": 2, "properties": properties}


def _failed_boots(config: ClusterConfig, below: int) -> Widget:
    group = watching.log_group(config.name, "boot")
    query = f"SOURCE '{group}' | fields @timestamp, @logStream, @message | filter @message like /status=failed/ "
    properties = {
        "title": "Failed boots",
        "region": config.region,
        "view": "table",
        "query": f"{query}| sort @timestamp desc | limit 20",
    }
    return {"type": "log", "x": 0, "y": below, "width": 24, "height": HEIGHT, "properties": properties}
