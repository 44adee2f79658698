"""Does what Slurm asks for with its SuspendProgram: terminates the instances of nodes and removes their DNS records.

Its last act is to record its end: after that, reconcile may let Slurm use a node whose instance is over.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime

from gpucluster_node import dns, ec2, fleet
from gpucluster_node.aws import client
from gpucluster_node.power import last_launches

log = logging.getLogger("suspend")


def suspend(cluster: fleet.Fleet, nodes: Sequence[str], asked_at: datetime) -> None:
    """Leaves instances that were launched after `asked_at`: if the request is late, they are the nodes' next ones."""
    before = last_launches.read(nodes)
    found = ec2.describe(client("ec2"), cluster, nodes) if nodes else []
    instances = [instance for instance in found if instance.launch_time <= asked_at]
    ec2.terminate(client("ec2"), [instance.instance_id for instance in instances])
    for instance in instances:
        log.info("%s terminated: %s", instance.node, instance.instance_id)
    names = {f"{node}.{cluster.zone}." for node in nodes}
    dns.remove(client("route53"), fleet.hosted_zone_id(client("ssm"), cluster), names.__contains__)
    had_one = {instance.node for instance in found}
    last_launches.suspended({node: before.get(node) for node in nodes if node in before or node not in had_one})
