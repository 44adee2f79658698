"""A records of nodes in the cluster's private zone."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from typing import Any

from gpucluster_node.aws import AWS_ERRORS, error_code
from gpucluster_node.batches import batches

log = logging.getLogger("dns")
TTL_S = 10
"""Short, because a node that is launched again has another address."""
CHANGES_PER_CALL = 500
"""Route 53 accepts 1000 changes a call, and an UPSERT counts as two."""
REMOVE_ATTEMPTS = 5

Change = dict[str, Any]


def upsert(zone: str, addresses: Mapping[str, str]) -> list[Change]:
    """addresses: node -> IPv4 address."""
    return [{"Action": "UPSERT", "ResourceRecordSet": _record(f"{node}.{zone}", ip)} for node, ip in addresses.items()]


def _record(name: str, address: str) -> dict[str, Any]:
    return {"Name": name, "Type": "A", "TTL": TTL_S, "ResourceRecords": [{"Value": address}]}


def apply(route53: Any, hosted_zone_id: str, changes: list[Change]) -> None:
    for batch in batches(changes, CHANGES_PER_CALL):
        route53.change_resource_record_sets(HostedZoneId=hosted_zone_id, ChangeBatch={"Changes": list(batch)})


class Writer:
    """Combines the addresses of several threads into one call: Route 53 accepts five calls a second from an account,
    and one at a time for a zone."""

    def __init__(self, write: Callable[[Mapping[str, str]], None]) -> None:
        self._write = write
        self._waiting: list[tuple[Mapping[str, str], Future[None]]] = []
        self._adding, self._writing = threading.Lock(), threading.Lock()

    def put(self, addresses: Mapping[str, str]) -> None:
        """node -> IPv4 address; returns when they are written, by any of the threads."""
        done: Future[None] = Future()
        with self._adding:
            self._waiting.append((addresses, done))
        with self._writing:
            self._write_all()
        done.result()

    def _write_all(self) -> None:
        with self._adding:
            taken, self._waiting = self._waiting, []
        together = {node: address for addresses, _ in taken for node, address in addresses.items()}
        try:
            if together:
                self._write(together)
        except Exception as error:  # any error: the other threads wait for an answer
            for _, done in taken:
                done.set_exception(error)
        else:
            for _, done in taken:
                done.set_result(None)


def remove(route53: Any, hosted_zone_id: str, wanted: Callable[[str], bool]) -> None:
    """Deletes the A records whose name `wanted` accepts.

    A deletion must repeat the record exactly, and Route 53 applies a batch as a whole or not at all. If a record has
    changed since it was read, the others are tried again. The changed one belongs to a newer instance.
    """
    records = _addresses(route53, hosted_zone_id, wanted)
    for attempt in range(1, REMOVE_ATTEMPTS + 1):
        try:
            apply(route53, hosted_zone_id, [{"Action": "DELETE", "ResourceRecordSet": record} for record in records])
            return
        except AWS_ERRORS as error:
            if error_code(error) != "InvalidChangeBatch" or attempt == REMOVE_ATTEMPTS:
                raise
            log.info("records have changed meanwhile: %s", error)
        now = _addresses(route53, hosted_zone_id, wanted)
        records = [record for record in records if record in now]


def exists(route53: Any, hosted_zone_id: str, name: str) -> bool:
    """Whether the zone has an A record of this name."""
    return bool(_addresses(route53, hosted_zone_id, lambda found: found.rstrip(".") == name.rstrip(".")))


def _addresses(route53: Any, hosted_zone_id: str, wanted: Callable[[str], bool]) -> list[dict[str, Any]]:
    return [record for record in _records(route53, hosted_zone_id) if record["Type"] == "A" and wanted(record["Name"])]


def _records(route53: Any, hosted_zone_id: str) -> Iterator[dict[str, Any]]:
    for page in route53.get_paginator("list_resource_record_sets").paginate(HostedZoneId=hosted_zone_id):
        yield from page["ResourceRecordSets"]


def shorten_negative_answers(route53: Any, hosted_zone_id: str) -> None:
    """Makes resolvers forget soon that a name did not exist: somebody may have asked for a node that was off.

    They remember it for as long as the zone's SOA record says. Route 53 sets 900 s, and a VPC's resolver was observed
    to use 300 (aws/aws-app-mesh-roadmap#221). CloudFormation cannot change this, because the record exists before it
    could create one. openshift/hypershift#1337 lowers it in the same way.
    """
    records = _records(route53, hosted_zone_id)
    soa = next((record for record in records if record["Type"] == "SOA"), None)
    if soa is None:
        return
    *kept, _ = soa["ResourceRecords"][0]["Value"].split()
    wanted = {**soa, "TTL": TTL_S, "ResourceRecords": [{"Value": " ".join([*kept, str(TTL_S)])}]}
    if wanted != soa:
        apply(route53, hosted_zone_id, [{"Action": "UPSERT", "ResourceRecordSet": wanted}])
