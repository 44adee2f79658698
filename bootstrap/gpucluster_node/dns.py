"""A records of nodes in the cluster's private zone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from gpucluster_node.batches import batches

TTL_S = 10
"""Short: a node that comes back has another address."""
CHANGES_PER_CALL = 500
"""Route 53 takes 1000 changes a call, and an UPSERT counts as two."""

Change = dict[str, Any]


def upsert(zone: str, addresses: Mapping[str, str]) -> list[Change]:
    """addresses: node -> IPv4 address."""
    return [{"Action": "UPSERT", "ResourceRecordSet": _record(f"{node}.{zone}", ip)} for node, ip in addresses.items()]


def _record(name: str, address: str) -> dict[str, Any]:
    return {"Name": name, "Type": "A", "TTL": TTL_S, "ResourceRecords": [{"Value": address}]}


def apply(route53: Any, hosted_zone_id: str, changes: list[Change]) -> None:
    for batch in batches(changes, CHANGES_PER_CALL):
        route53.change_resource_record_sets(HostedZoneId=hosted_zone_id, ChangeBatch={"Changes": list(batch)})


def remove(route53: Any, hosted_zone_id: str, wanted: Callable[[str], bool]) -> None:
    """Delete the A records whose name `wanted` accepts. A deletion must repeat the record as it is."""
    found = [record for record in _records(route53, hosted_zone_id) if record["Type"] == "A" and wanted(record["Name"])]
    apply(route53, hosted_zone_id, [{"Action": "DELETE", "ResourceRecordSet": record} for record in found])


def _records(route53: Any, hosted_zone_id: str) -> Iterator[dict[str, Any]]:
    for page in route53.get_paginator("list_resource_record_sets").paginate(HostedZoneId=hosted_zone_id):
        yield from page["ResourceRecordSets"]
