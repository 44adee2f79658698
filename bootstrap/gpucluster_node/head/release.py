"""Terminates every compute instance of the cluster and removes their DNS records.

usage: release [--at-power-off]. With the option it only acts while EC2 terminates this machine: after a stop or a
reboot the machine starts again, and another head node may have taken its place.
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
        if not heads.is_wanted(me, client("ssm"), fleet.load()):
            log.info("another head node has replaced this one: no node is terminated")
            return
    release(fleet.load())


if __name__ == "__main__":
    main()
