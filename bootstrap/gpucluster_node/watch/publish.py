"""Sends the cluster's metrics to CloudWatch each minute: nodes and jobs by state, refused launches by code, USD per
hour.

Each node's agent measures the machine; only the head node can count what Slurm and EC2 know. A count of zero is
published only once after it was larger, because CloudWatch charges for each metric in each hour in which it has a
value.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpucluster_node import ec2, fleet, refusals, slurm
from gpucluster_node.aws import AWS_ERRORS, client
from gpucluster_node.batches import batches
from gpucluster_node.log import start_logging
from gpucluster_node.watch import job_logs

log = logging.getLogger("publish")
NAMESPACE = "GpuCluster"
INTERVAL_S = 60
METRICS_PER_CALL = 500
"""PutMetricData accepts 1,000 values and 1 MB."""

Count = Counter[tuple[str, str]]
"""(partition, state or code) -> how many."""
NO_PARTITION = "none"

Datum = dict[str, Any]
_STATES = (
    ("down", ("DOWN", "FAIL")),
    ("starting", ("POWERING_UP", "POWER_UP")),
    ("off", ("POWERED_DOWN",)),
    ("stopping", ("POWERING_DOWN", "POWER_DOWN")),
    ("drained", ("DRAIN",)),
    ("busy", ("ALLOCATED", "MIXED", "COMPLETING")),
    ("idle", ("IDLE",)),
)
"""The first state that fits: a node that is being powered up may still be POWERED_DOWN, a drained one is IDLE as well.
"""


@dataclass(frozen=True)
class View:
    """The state of the cluster at one moment."""

    nodes: Count = field(default_factory=Counter)
    jobs: Count = field(default_factory=Counter)
    refused: Count = field(default_factory=Counter)
    """Counted since the last view."""
    usd_per_hour: Mapping[str, float] = field(default_factory=dict)
    """partition -> the list price of its instances."""


def state(node: slurm.Node) -> str:
    return next((name for name, flags in _STATES if node.has(*flags)), "other")


def count_nodes(cluster: fleet.Fleet, nodes: Iterable[slurm.Node]) -> Count:
    """Nodes that are off are the rest of max_nodes, so they need no metric."""
    known = ((cluster.partition_of(node.name), state(node)) for node in nodes)
    return Counter((partition.name, name) for partition, name in known if partition and name != "off")


def count_jobs(jobs: Iterable[tuple[str, str]]) -> Count:
    """jobs: partition and state of each. A job that may run in several partitions counts for the first."""
    return Counter((partition.split(",")[0], name.lower()) for partition, name in jobs)


def prices(instances: Iterable[Mapping[str, Any]], usd_per_hour: Mapping[str, float]) -> dict[str, float]:
    """partition -> USD per hour of the instances that are not terminated; those without a price count as 0. A user may
    launch an instance without a partition's tag. CloudWatch refuses a whole call with an empty dimension."""
    total: dict[str, float] = {}
    for instance in instances:
        tags = {tag["Key"]: tag["Value"] for tag in instance.get("Tags", ())}
        partition = tags.get("gpucluster:partition") or NO_PARTITION
        total[partition] = total.get(partition, 0.0) + usd_per_hour.get(instance["InstanceType"], 0.0)
    return total


def metric_data(cluster: str, now: View, before: View) -> list[Datum]:
    """The data of PutMetricData."""

    def datum(name: str, value: float, unit: str = "Count", **dimensions: str) -> Datum:
        named = [{"Name": key, "Value": text} for key, text in {"Cluster": cluster, **dimensions}.items()]
        return {"MetricName": name, "Dimensions": named, "Value": value, "Unit": unit}

    data = [datum("Heartbeat", 1), datum("LaunchFailures", now.refused.total())]
    for name, key, counted, earlier in (
        ("NodesByState", "State", now.nodes, before.nodes),
        ("JobsByState", "State", now.jobs, before.jobs),
        ("LaunchFailures", "Code", now.refused, before.refused),
    ):
        wanted = sorted(counted.keys() | {each for each, number in earlier.items() if number})
        data += [datum(name, counted[each], Partition=each[0], **{key: each[1]}) for each in wanted]
    for partition in sorted(now.usd_per_hour.keys() | {each for each, usd in before.usd_per_hour.items() if usd}):
        data.append(datum("UsdPerHour", now.usd_per_hour.get(partition, 0.0), "None", Partition=partition))
    return data


def put(cloudwatch: Any, data: Sequence[Datum]) -> None:
    for batch in batches(data, METRICS_PER_CALL):
        cloudwatch.put_metric_data(Namespace=NAMESPACE, MetricData=list(batch))


def has_disk(device: int, devices: Path = Path("/sys/dev/block")) -> bool:
    """device: `st_dev` of a mounted path. Without its disk, the kernel keeps the mount and may answer `stat`."""
    on_disk = os.major(device) != 0 and devices.is_dir()
    return not on_disk or (devices / f"{os.major(device)}:{os.minor(device)}").exists()


def look(cluster: fleet.Fleet, usd_per_hour: Mapping[str, float]) -> View:
    """Raises SlurmError if slurmctld does not answer, and OSError without the data volume; then the caller sends no
    heartbeat either."""
    if not has_disk(os.stat(cluster.state).st_dev):
        raise OSError("the data volume is gone: EC2 has detached it from this head node")
    nodes, jobs = slurm.nodes(), slurm.jobs()
    running = _instances(client("ec2"), cluster)
    return View(count_nodes(cluster, nodes), count_jobs(jobs), Counter(), prices(running, usd_per_hour))


def _instances(api: Any, cluster: fleet.Fleet) -> Iterator[Mapping[str, Any]]:
    for page in api.get_paginator("describe_instances").paginate(**ec2.describe_request(cluster)):
        for reservation in page["Reservations"]:
            yield from reservation["Instances"]


def main() -> None:
    start_logging()
    cluster = fleet.load()
    usd_per_hour: dict[str, float] = json.loads((fleet.BUNDLE / "prices.json").read_text())
    before, refused = View(), Count()
    while True:
        began = time.monotonic()
        job_logs.refresh()
        try:
            refused += refusals.take()
            seen = look(cluster, usd_per_hour)
            now = View(seen.nodes, seen.jobs, refused, seen.usd_per_hour)
            put(client("cloudwatch"), metric_data(cluster.cluster, now, before))
            before, refused = now, Count()
        except (*AWS_ERRORS, slurm.SlurmError, OSError) as error:
            log.warning("nothing published: %s", error)
        time.sleep(max(1.0, INTERVAL_S - (time.monotonic() - began)))


if __name__ == "__main__":
    main()
