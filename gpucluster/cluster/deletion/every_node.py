"""What the head node has created, and CloudFormation does not know: compute nodes, and their DNS records."""

from __future__ import annotations

import time
from typing import Any

from gpucluster.cluster import stack, tagged_instances
from gpucluster.cluster.progress import Tell

POLL_S = 5.0
AT_ONCE = 500
"""Instances that one call terminates, and records that one call deletes. EC2 takes up to 1,000 ids; Route 53 up to
1,000 records with 32,000 characters of values (developer guide, Quotas, "Maximums on API requests")."""


def end(ec2: Any, cluster: str, tell: Tell, *, head_too: bool) -> None:
    """Terminates the head node together with the compute nodes, because it would replace them. `head_too`: also without
    compute nodes."""
    compute, head = (_instances(ec2, cluster, role) for role in ("compute", "head"))
    if not compute and not (head and head_too):
        return
    tell(f"terminating the head node and {' '.join(compute) or 'no compute node'}")
    every = [*head, *compute]
    for start in range(0, len(every), AT_ONCE):
        ec2.terminate_instances(InstanceIds=every[start : start + AT_ONCE])
    while _instances(ec2, cluster, "compute"):
        time.sleep(POLL_S)


def _instances(ec2: Any, cluster: str, role: str) -> list[str]:
    found = tagged_instances.find(ec2, tagged_instances.NOT_TERMINATED, cluster=cluster, role=role)
    return [instance["InstanceId"] for instance in found]


def remove_records(cloudformation: Any, route53: Any, cluster: str) -> None:
    """Deletes the nodes' DNS records: CloudFormation cannot delete a zone that has other records than its own."""
    for zone in stack.physical_ids(cloudformation, cluster, "AWS::Route53::HostedZone"):
        pages = route53.get_paginator("list_resource_record_sets").paginate(HostedZoneId=zone)
        changes = [
            {"Action": "DELETE", "ResourceRecordSet": record}
            for page in pages
            for record in page["ResourceRecordSets"]
            if record["Type"] == "A" and not record["Name"].startswith("head.")
        ]
        for start in range(0, len(changes), AT_ONCE):
            batch = {"Changes": changes[start : start + AT_ONCE]}
            route53.change_resource_record_sets(HostedZoneId=zone, ChangeBatch=batch)
