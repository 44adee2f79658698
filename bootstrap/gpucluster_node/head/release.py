"""Terminates every compute instance of the cluster and removes their DNS records.

usage: release [--at-power-off]. With the option it only acts while CloudFormation deletes the stack. After a stop or a
reboot the machine starts again. If only this instance is terminated, `gpucluster up` makes another head node, and the
compute nodes and their jobs wait for it.
"""

from __future__ import annotations

import logging
import subprocess
import sys

from gpucluster_node import dns, ec2, fleet, imds
from gpucluster_node.aws import client
from gpucluster_node.head import heads
from gpucluster_node.log import start_logging

log = logging.getLogger("release")


def powering_off(jobs: str) -> bool:
    """jobs: output of `systemctl list-jobs`."""
    words = [line.split() for line in jobs.splitlines()]
    return any("poweroff.target" in line or "halt.target" in line for line in words)


def stack_is_deleted(cluster: fleet.Fleet) -> bool:
    """The stack's record of the head node's address refers to this instance, and CloudFormation deletes what refers to
    a resource before the resource itself. So the record is missing if the stack is being deleted, and only then."""
    zone_id = fleet.hosted_zone_id(client("ssm"), cluster)
    return not dns.exists(client("route53"), zone_id, f"head.{cluster.zone}")


def release(cluster: fleet.Fleet) -> None:
    instances = ec2.describe(client("ec2"), cluster)
    ec2.terminate(client("ec2"), [instance.instance_id for instance in instances])
    log.info("ended %d instances: %s", len(instances), " ".join(instance.instance_id for instance in instances))
    dns.remove(client("route53"), fleet.hosted_zone_id(client("ssm"), cluster), cluster.is_node_record)


def main() -> None:
    start_logging()
    if "--at-power-off" in sys.argv[1:]:
        jobs = subprocess.run(["systemctl", "list-jobs", "--no-legend"], capture_output=True, text=True).stdout
        if not powering_off(jobs):
            log.info("the machine is not shutting down: no node is terminated")
            return
        me = heads.find(client("ec2"), imds.instance_id())
        if me.state != "shutting-down":
            log.info("this instance is %s and not being terminated: no node is terminated", me.state)
            return
        if not stack_is_deleted(fleet.load()):
            log.info("the stack remains: no node is terminated, and `gpucluster up` makes another head node")
            return
    release(fleet.load())


if __name__ == "__main__":
    main()
