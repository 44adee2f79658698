"""Slurm's ResumeProgram: launches the instances of nodes that jobs wait for.

usage: resume HOSTLIST. Which job wants which nodes is in the file that SLURM_RESUME_FILE names. The nodes of a job are
launched together or not at all. Nodes that could not be launched are set DOWN at once with EC2's code and message.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpucluster_node import dns, ec2, fleet, refusals, retry, slurm
from gpucluster_node.aws import AWS_ERRORS, client, error_code, error_message
from gpucluster_node.log import start_logging

log = logging.getLogger("resume")


@dataclass(frozen=True)
class Group:
    """Nodes that are launched together or not at all."""

    partition: str
    nodes: tuple[str, ...]
    job_id: int | None = None


class LaunchRefused(Exception):
    """No instance type of the partition could be launched; the message is EC2's."""


def groups(cluster: fleet.Fleet, nodes: Sequence[str], jobs: Sequence[dict[str, Any]]) -> list[Group]:
    """One for each job and partition; a node that no job waits for is one by itself."""
    found: list[Group] = []
    left = dict.fromkeys(nodes)
    for job in jobs:
        wanted = [node for node in slurm.expand(job["nodes_resume"]) if node in left]
        for node in wanted:
            del left[node]
        found += _by_partition(cluster, wanted, job["job_id"])
    return found + [group for node in left for group in _by_partition(cluster, [node], None)]


def _by_partition(cluster: fleet.Fleet, nodes: Sequence[str], job_id: int | None) -> Iterator[Group]:
    of = {node: partition.name for node in nodes if (partition := cluster.partition_of(node))}
    for name in dict.fromkeys(of.values()):
        yield Group(name, tuple(node for node in nodes if of.get(node) == name), job_id)


def launch(cluster: fleet.Fleet, group: Group, attempt: str) -> list[ec2.Instance]:
    """The first instance type that has room wins. Raises LaunchRefused."""
    said = []
    for template in fleet.launch_templates(client("ssm"), cluster, group.partition):
        token = ec2.client_token(attempt, group.nodes, template)
        try:
            return ec2.launch(client("ec2"), template, len(group.nodes), token)
        except AWS_ERRORS as error:
            refusals.record(group.partition, error_code(error))
            said.append(f"{error_code(error)}: {error_message(error)} ({template.instance_type})")
            log.warning("%s: %s", ",".join(group.nodes), said[-1])
    raise LaunchRefused("; ".join(said))


def assign(cluster: fleet.Fleet, nodes: Sequence[str], instances: Sequence[ec2.Instance]) -> None:
    """Tell each instance its node's name, the zone its address, and Slurm too."""
    addresses = {node: instance.private_ip or "" for node, instance in zip(nodes, instances, strict=True)}
    for node, instance in zip(nodes, instances, strict=True):
        ec2.tag(client("ec2"), ec2.tag_request(cluster, instance.instance_id, node))
    zone_id = fleet.hosted_zone_id(client("ssm"), cluster)
    dns.apply(client("route53"), zone_id, dns.upsert(cluster.zone, addresses))
    slurm.set_addresses(addresses)


def resume(cluster: fleet.Fleet, group: Group, attempt: str) -> None:
    instances = launch(cluster, group, attempt)
    try:
        assign(cluster, group.nodes, instances)
    except Exception:
        ec2.terminate(client("ec2"), [instance.instance_id for instance in instances])
        raise
    for node, instance in zip(group.nodes, instances, strict=True):
        wanted_by = f"job {group.job_id}" if group.job_id else "nobody in particular"
        log.info("%s is %s at %s, wanted by %s", node, instance.instance_id, instance.private_ip, wanted_by)


def refuse(group: Group, error: Exception) -> None:
    """Whatever went wrong, nodes that will not come must not stay `powering up` until Slurm's timeout."""
    why = str(error) if isinstance(error, LaunchRefused) else f"{error_code(error)}: {error_message(error)}"
    log.error("%s set down: %s", ",".join(group.nodes), why)
    slurm.set_down(group.nodes, retry.reason(why, retry.LAUNCH_REFUSED_S))


def waiting_jobs() -> list[dict[str, Any]]:
    """Slurm removes the file when this program ends: read it first."""
    path = os.environ.get("SLURM_RESUME_FILE")
    if not path:
        return []
    jobs: list[dict[str, Any]] = json.loads(Path(path).read_text()).get("jobs", [])
    return jobs


def main() -> None:
    jobs = waiting_jobs()
    start_logging()
    cluster = fleet.load()
    attempt = f"{time.time_ns()}"
    for group in groups(cluster, slurm.expand(sys.argv[1]), jobs):
        try:
            resume(cluster, group, attempt)
        except Exception as error:
            refuse(group, error)


if __name__ == "__main__":
    main()
