"""Slurm's SuspendProgram: terminates the instances of nodes and removes their DNS records. usage: suspend HOSTLIST

Its last act is to record its end: after that, reconcile may let Slurm use a node whose instance is over.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from datetime import datetime, timezone

from gpucluster_node import dns, ec2, fleet, slurm
from gpucluster_node.aws import client
from gpucluster_node.log import start_logging
from gpucluster_node.power import launched

log = logging.getLogger("suspend")


def suspend(cluster: fleet.Fleet, nodes: Sequence[str], asked_at: datetime) -> None:
    """Leaves instances that were launched after `asked_at`: if this program is late, they are the nodes' next ones."""
    before = launched.read(nodes)
    found = ec2.describe(client("ec2"), cluster, nodes) if nodes else []
    instances = [instance for instance in found if instance.launch_time <= asked_at]
    ec2.terminate(client("ec2"), [instance.instance_id for instance in instances])
    for instance in instances:
        log.info("%s terminated: %s", instance.node, instance.instance_id)
    names = {f"{node}.{cluster.zone}." for node in nodes}
    dns.remove(client("route53"), fleet.hosted_zone_id(client("ssm"), cluster), names.__contains__)
    had_one = {instance.node for instance in found}
    launched.suspended({node: before.get(node) for node in nodes if node in before or node not in had_one})


def main() -> None:
    asked_at = datetime.now(timezone.utc)
    start_logging()
    suspend(fleet.load(), slurm.expand(sys.argv[1]), asked_at)


if __name__ == "__main__":
    main()
