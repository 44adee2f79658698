"""The values that a training job prints, and the load of its hosts.

The values come from the log, by the job's own MetricDefinitions: SageMaker itself keeps one mean for each minute. The
load comes from CloudWatch.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from gpucluster.config.sagemaker import PREFIX
from gpucluster.errors import AwsError
from gpucluster.following.logs import Selection
from gpucluster.following.metrics import Point
from gpucluster.following.usage import UNITS, Series
from gpucluster.hardware.instances import INSTANCE_TYPES, InstanceType
from gpucluster.sagemaker.following.account import Account
from gpucluster.sagemaker.following.logs import OF_RANK, Choice, Streams
from gpucluster.sagemaker.following.training import Training

NAMESPACE = "/aws/sagemaker/TrainingJobs"
_MOST_POINTS = 1000
_DAY_S = 86_400
_MOST_QUERIES = 500
"""The queries that one GetMetricData takes: botocore's documentation."""
# Our name of a sample -> CloudWatch's metric, and its value in our unit. CloudWatch's percentages are sums over CPUs
# and GPUs: docs.aws.amazon.com/sagemaker/latest/dg/monitoring-cloudwatch.html, "Jobs metrics".
_SAMPLES: dict[str, tuple[str, Callable[[float, InstanceType], float]]] = {
    "gpu_util_percent": ("GPUUtilization", lambda value, kind: value / max(1, kind.gpus)),
    "gpu_memory_gib": ("GPUMemoryUtilization", lambda value, kind: value / 100 * kind.gpu_memory_mib / 1024),
    "cpu_percent": ("CPUUtilization", lambda value, kind: value / kind.vcpus),
    "memory_gib": ("MemoryUtilization", lambda value, kind: value / 100 * kind.memory_gib),
}


def definitions(job: Training) -> dict[str, re.Pattern[str]]:
    """Name -> expression. One that Python cannot parse is left out: SageMaker's are Java's."""
    found = dict[str, re.Pattern[str]]()
    for each in job.answer["AlgorithmSpecification"].get("MetricDefinitions", ()):
        try:
            found[each["Name"]] = re.compile(each["Regex"])
        except re.error:
            continue
    return found


def points(account: Account, job: Training) -> dict[str, list[Point]]:
    """Name -> its values, the oldest first. Raises AwsError."""
    wanted, found = definitions(job), dict[str, list[Point]]()
    if not wanted:
        return found
    for line in Streams(account, job.name, Choice(Selection(), 0)).all():
        text = OF_RANK.sub("", line.text, count=1)  # on the cluster expressions see no label either
        for name, pattern in wanted.items():
            if (value := _value(pattern.search(text))) is not None:
                found.setdefault(name, []).append(Point(line.at_ms / 1000, None, value))
    return found


def _value(match: re.Match[str] | None) -> float | None:
    try:
        return float(match[1]) if match else None
    except (IndexError, TypeError, ValueError):
        return None


def samples(account: Account, job: Training, names: Sequence[str] = ()) -> list[Series]:
    """The load of each host, `names` of UNITS. Empty before it has started. Raises AwsError."""
    kind = INSTANCE_TYPES.get(job.instance_type.removeprefix(PREFIX))
    begun = job.started
    if kind is None or begun is None:
        return []
    end = job.finished or time.time()
    finest = _finest_s(time.time() - begun)
    period = finest * max(1, math.ceil((end - begun) / finest / _MOST_POINTS))
    wanted = [name for name in _SAMPLES if (not names or name in names) and (kind.gpus or "gpu" not in name)]
    asked = [_query(job.name, host, name, period) for host in range(1, job.instances + 1) for name in wanted]
    found: list[Series] = []
    for first in range(0, len(asked), _MOST_QUERIES):
        queries = asked[first : first + _MOST_QUERIES]
        times = {"StartTime": begun, "EndTime": end + period, "ScanBy": "TimestampAscending"}
        found += _read(account, kind, {"MetricDataQueries": queries, **times})
    return found


def _finest_s(age_s: float) -> int:
    """CloudWatch has no values of a shorter period so long ago: botocore's documentation of MetricStat.Period."""
    return 60 if age_s < 15 * _DAY_S else 300 if age_s < 63 * _DAY_S else 3600


def _query(job: str, host: int, name: str, period: int) -> dict[str, Any]:
    metric = {
        "Namespace": NAMESPACE,
        "MetricName": _SAMPLES[name][0],
        "Dimensions": [{"Name": "Host", "Value": f"{job}/algo-{host}"}],
    }
    return {"Id": f"{name}_{host}", "MetricStat": {"Metric": metric, "Period": period, "Stat": "Average"}}


def _read(account: Account, kind: InstanceType, asked: dict[str, Any]) -> Iterator[Series]:
    found = dict[str, list[tuple[float, float]]]()
    for page in account.pages("cloudwatch", "get_metric_data", **asked):
        for each in page["MetricDataResults"]:
            times = [at.timestamp() for at in each["Timestamps"]]
            found.setdefault(each["Id"], []).extend(zip(times, each["Values"], strict=True))
    for key, values in found.items():
        name, _, host = key.rpartition("_")
        ours = tuple((at, _SAMPLES[name][1](value, kind)) for at, value in values)
        if ours:
            yield Series(f"algo-{host}", None, name, UNITS[name], ours)


def load(account: Account, job: Training, names: Sequence[str] = ()) -> tuple[list[Series], list[str]]:
    """The samples, and why there are none if AWS refuses them."""
    try:
        return samples(account, job, names), []
    except AwsError as error:
        return [], [error.message]
