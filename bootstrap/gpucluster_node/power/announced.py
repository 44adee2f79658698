"""What EC2 announces of the cluster's nodes: scheduled events, failed status checks, and the ends of Capacity Blocks.

The head node asks once a minute. It lets the jobs of a node leave before the node's end (`ends`), and powers a node
whose status check fails down after its jobs. Spot instances read their notices themselves.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any

from gpucluster_node import ec2, ends, slurm, states
from gpucluster_node.aws import AWS_ERRORS
from gpucluster_node.power import words

log = logging.getLogger("announced")
EVERY = timedelta(minutes=1)
NEAR = timedelta(minutes=10)
"""So long before an end the node's jobs are looked at each time, else once a minute."""
CHECK_FAILS = timedelta(minutes=3)
"""ParallelCluster's clustermgtd waits as long: a check may fail for a moment."""
EVENTS = ("instance-reboot", "system-reboot", "system-maintenance", "instance-retirement", "instance-stop")
EVENT_DRAIN = timedelta(hours=24)
"""EC2 announces most events days or weeks before."""
CHECKS = {
    "InstanceStatus": "instance-status.status",
    "SystemStatus": "system-status.status",
    "AttachedEbsStatus": "attached-ebs-status.status",
}
"""Field of the answer -> filter. With instance ids a page has 100 instances, without them 1,000."""
BLOCK_TERMINATES = timedelta(minutes=30)
"""So long before a Capacity Block's EndDate EC2 begins to terminate its instances: a warning comes 40 minutes before
the end, and termination begins 10 minutes later (EC2's guide, capacity-blocks-monitor)."""


@dataclass(frozen=True)
class Status:
    """Of one instance, from DescribeInstanceStatus."""

    ends: tuple[ends.End, ...]
    failed: tuple[tuple[str, datetime], ...]
    """Status checks that fail, and since when."""


def parse(status: Mapping[str, Any]) -> Status:
    return Status(tuple(_events(status)), tuple(_failed(status)))


def _events(status: Mapping[str, Any]) -> Iterator[ends.End]:
    """An event that is over stays in the list for a week, as `[Completed] …` or `[Canceled] …`."""
    for event in status.get("Events", ()):
        at = event.get("NotBefore")
        if at and not event.get("Description", "").startswith("["):
            yield ends.End(at, f"EC2 plans {event['Code']} at {ends.utc(at)}", EVENT_DRAIN)


def _failed(status: Mapping[str, Any]) -> Iterator[tuple[str, datetime]]:
    for check in CHECKS:
        found = status.get(check, {})
        if found.get("Status") == "impaired":
            since = [each["ImpairedSince"] for each in found.get("Details", ()) if "ImpairedSince" in each]
            yield check, min(since, default=datetime.min.replace(tzinfo=timezone.utc))


def statuses(client: Any) -> dict[str, Status]:
    """Instance id -> status, of those with an event or a failed check. Other clusters' are among them."""
    filters = {"event.code": list(EVENTS), **{name: ["impaired"] for name in CHECKS.values()}}
    pages = client.get_paginator("describe_instance_status")
    return {
        each["InstanceId"]: parse(each)
        for name, values in filters.items()
        for page in pages.paginate(
            Filters=[{"Name": name, "Values": values}], PaginationConfig={"PageSize": ec2.PAGE_SIZE}
        )
        for each in page["InstanceStatuses"]
    }


def blocks(client: Any, instances: Sequence[ec2.Instance]) -> dict[str, ends.End]:
    """The ends of the Capacity Blocks in which instances run, by the id of the reservation."""
    ids = sorted({each.capacity_block for each in instances if each.capacity_block})
    found = client.describe_capacity_reservations(CapacityReservationIds=ids)["CapacityReservations"] if ids else []
    return {each["CapacityReservationId"]: _block(each) for each in found if each.get("EndDate")}


def _block(reservation: Mapping[str, Any]) -> ends.End:
    at = reservation["EndDate"] - BLOCK_TERMINATES
    name = reservation["CapacityReservationId"]
    return ends.End(at, f"Capacity Block {name}: EC2 will terminate it at {ends.utc(at)}", NEAR)


@dataclass
class Announced:
    """Kept from one look to the next."""

    client: Callable[[], Any]
    _asked: datetime | None = None
    _statuses: dict[str, Status] = field(default_factory=dict)
    _blocks: dict[str, ends.End] = field(default_factory=dict)
    _nodes: dict[str, ends.Watch] = field(default_factory=dict)
    """By instance id: the next instance of the same node is another one."""

    def look(self, nodes: Sequence[slurm.Node], newest: Mapping[str, ec2.Instance], now: datetime) -> None:
        """newest: node -> its instance."""
        is_due = self._asked is None or now - self._asked >= EVERY
        if is_due:
            self._asked = now
            self._ask(list(newest.values()))
        for node in nodes:
            instance = newest.get(node.name)
            if instance and words.of_slurm(node) in states.IN_SERVICE:
                self._about(node.name, instance, now, is_due)

    def _ask(self, instances: Sequence[ec2.Instance]) -> None:
        ids = {each.instance_id for each in instances}
        self._nodes = {id_: watch for id_, watch in self._nodes.items() if id_ in ids}
        try:
            self._statuses = {id_: each for id_, each in statuses(self.client()).items() if id_ in ids}
            self._blocks = blocks(self.client(), instances)
        except AWS_ERRORS as error:
            log.warning("what EC2 has announced is not known: %s", error)

    def _about(self, node: str, instance: ec2.Instance, now: datetime, is_due: bool) -> None:
        """One node's refusal must not block the others."""
        status = self._statuses.get(instance.instance_id, Status((), ()))
        end = self._next_end(status, instance)
        is_leaving = end is not None and end.at - now <= end.drain_before
        try:
            if reason := "" if is_leaving else _impaired(status, now):
                self._watch(node, instance).power_down(reason)
            if end and (is_due or end.at - now <= NEAR):
                self._watch(node, instance).before(end, now)
        except slurm.SlurmError as error:
            log.warning("%s: will look again: %s", node, error)

    def _next_end(self, status: Status, instance: ec2.Instance) -> ends.End | None:
        block = self._blocks.get(instance.capacity_block)
        known = (*status.ends, block) if block else status.ends
        return min(known, key=lambda end: end.at, default=None)

    def _watch(self, node: str, instance: ec2.Instance) -> ends.Watch:
        return self._nodes.setdefault(instance.instance_id, ends.Watch(node))


def _impaired(status: Status, now: datetime) -> str:
    failed = [check for check, since in status.failed if now - since >= CHECK_FAILS]
    return f"EC2's status checks fail: {', '.join(failed)} impaired" if failed else ""
