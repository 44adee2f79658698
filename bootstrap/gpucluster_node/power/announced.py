"""What EC2 announces of the cluster's nodes: scheduled events, failed status checks, and the ends of Capacity Blocks.

The head node asks once a minute. It lets the jobs of a node leave before the node's end (`ends`), powers a node whose
status check fails down after its jobs, and gives a node up whose check fails while it boots: the instance will never
answer. Spot instances read their notices themselves.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from gpucluster_node import ec2, ends, retry, slurm, states
from gpucluster_node.aws import AWS_ERRORS
from gpucluster_node.power import failing, observation

log = logging.getLogger("announced")
EVERY = timedelta(minutes=1)
NEAR = timedelta(minutes=10)
"""So long before an end the node's jobs are looked at each time, else once a minute."""
FAILING = "EC2's status checks fail"
CHECK_FAILS = timedelta(minutes=3)
"""ParallelCluster's clustermgtd waits as long: a check may fail for a moment."""
EVENTS = ("instance-reboot", "system-reboot", "system-maintenance", "instance-retirement", "instance-stop")
EVENT_DRAIN = timedelta(hours=24)
"""EC2 announces most events days or weeks before."""
CHECKS = {
    "instance-status.status": "instance status",
    "system-status.status": "system status",
    "attached-ebs-status.status": "attached EBS status",
}
"""Filter -> what its check is called. Only the filter tells which check fails: boto3 of Ubuntu 24.04 (1.34) drops
AttachedEbsStatus from the answer. With instance ids a page has 100 instances, without them 1,000."""
BLOCK_TERMINATES = timedelta(minutes=30)
"""So long before a Capacity Block's EndDate EC2 begins to terminate its instances: a warning comes 40 minutes before
the end, and termination begins 10 minutes later (EC2's guide, capacity-blocks-monitor)."""

Failing = dict[tuple[str, str], datetime]
"""Instance id and check -> since when."""


def _statuses(client: Any, name: str, values: Sequence[str]) -> Iterator[Mapping[str, Any]]:
    """DescribeInstanceStatus with a filter. Other clusters' instances are among them."""
    pages = client.get_paginator("describe_instance_status")
    filters = [{"Name": name, "Values": list(values)}]
    for page in pages.paginate(Filters=filters, PaginationConfig={"PageSize": ec2.PAGE_SIZE}):
        yield from page["InstanceStatuses"]


def events(client: Any) -> dict[str, tuple[ends.End, ...]]:
    """Instance id -> its scheduled events."""
    return {each["InstanceId"]: tuple(_events(each)) for each in _statuses(client, "event.code", EVENTS)}


def _events(status: Mapping[str, Any]) -> Iterator[ends.End]:
    """An event that is over stays in the list for a week, as `[Completed] …` or `[Canceled] …`."""
    for event in status.get("Events", ()):
        at = event.get("NotBefore")
        if at and not event.get("Description", "").startswith("["):
            yield ends.End(at, f"EC2 plans {event['Code']} at {ends.utc(at)}", EVENT_DRAIN)


def impaired(client: Any, ids: Collection[str], before: Failing, now: datetime) -> Failing:
    """The checks that fail now, of these instances. EC2's own ImpairedSince may be the time of the launch: a node that
    has just booted would seem to fail since then. before: the last answer."""
    found = ((each["InstanceId"], check) for check in CHECKS for each in _statuses(client, check, ["impaired"]))
    return {key: before.get(key, now) for key in found if key[0] in ids}


def blocks(client: Any, ids: Collection[str]) -> dict[str, ends.End]:
    """The ends of these Capacity Blocks, by the id of the reservation."""
    asked = sorted(set(ids))
    found = client.describe_capacity_reservations(CapacityReservationIds=asked)["CapacityReservations"] if asked else []
    return {each["CapacityReservationId"]: _block(each) for each in found if each.get("EndDate")}


def _block(reservation: Mapping[str, Any]) -> ends.End:
    """The block would launch another instance in place of one that is powered down."""
    at = reservation["EndDate"] - BLOCK_TERMINATES
    name = reservation["CapacityReservationId"]
    return ends.End(at, f"Capacity Block {name}: EC2 will terminate it at {ends.utc(at)}", NEAR, "drain")


@dataclass
class Announced:
    """Kept from one look to the next."""

    client: Callable[[], Any]
    _asked: datetime | None = None
    _events: dict[str, tuple[ends.End, ...]] = field(default_factory=dict)
    _blocks: dict[str, ends.End] = field(default_factory=dict)
    _failing: Failing = field(default_factory=dict)
    _checked: bool = False
    """Whether EC2 has answered the last question about the checks. Without an answer, a check may have recovered."""
    _booting: frozenset[str] = frozenset()
    """The instances that booted when EC2 was last asked."""
    _watches: dict[str, ends.Watch] = field(default_factory=dict)
    """By instance id: the next instance of the same node is another one."""

    def look(self, nodes: Sequence[slurm.Node], own: Mapping[str, ec2.Instance], now: datetime) -> None:
        """own: node -> its instance."""
        known = [(node, own[node.name], observation.of_slurm(node)) for node in nodes if node.name in own]
        in_service = [(node, instance) for node, instance, state in known if state in states.IN_SERVICE]
        booting = [(node, instance) for node, instance, state in known if state == states.BOOTING]
        is_due = self._asked is None or now - self._asked >= EVERY
        if is_due:
            self._asked = now
            self._ask([instance for _, instance in in_service], [instance.instance_id for _, instance in booting], now)
        self._before_ends(in_service, now, is_due=is_due)
        self._after_checks(in_service, now)
        self._hung(booting, now)

    def _ask(self, instances: Sequence[ec2.Instance], booting: Sequence[str], now: datetime) -> None:
        ids = {each.instance_id for each in instances}
        self._watches = {id_: watch for id_, watch in self._watches.items() if id_ in ids}
        # The time during the boot does not count for a node in service.
        before = {
            key: since for key, since in self._failing.items() if (key[0] in booting) == (key[0] in self._booting)
        }
        self._booting = frozenset(booting)
        self._checked = False
        try:
            self._events = events(self.client())
            self._failing = impaired(self.client(), ids | self._booting, before, now)
            self._checked = True
            self._blocks = blocks(self.client(), [each.capacity_block for each in instances if each.capacity_block])
        except AWS_ERRORS as error:
            log.warning("what EC2 has announced is not known: %s", error)

    def _before_ends(self, in_service: Sequence[InService], now: datetime, *, is_due: bool) -> None:
        known = ((node, instance, self._next_end(instance, now)) for node, instance in in_service)
        near = [
            (node, instance, end)
            for node, instance, end in known
            if end and end.at - now <= (EVENT_DRAIN if is_due else NEAR)
        ]
        try:
            jobs = slurm.running() if near else []
        except slurm.SlurmError as error:
            log.warning("the jobs are not known: %s", error)
            return
        for node, instance, end in near:
            watch, here = self._watch(node.name, instance), [job for job in jobs if node.name in job.nodes]
            drain = observation.of_slurm(node) != states.DRAINED
            _try(partial(watch.before, end, now, here, drain=drain), node.name)

    def _next_end(self, instance: ec2.Instance, now: datetime) -> ends.End | None:
        """An event may be listed for a while after it began."""
        block = self._blocks.get(instance.capacity_block)
        known = (*self._events.get(instance.instance_id, ()), *([block] if block else []))
        return min(known, key=lambda end: (end.at < now, end.at), default=None)

    def _after_checks(self, in_service: Sequence[InService], now: datetime) -> None:
        for node, instance in in_service:
            reason = self._failed(instance, now)
            if reason and observation.of_slurm(node) in (states.UP, states.SILENT):
                _try(partial(self._watch(node.name, instance).take_away, reason), node.name)

    def _hung(self, booting: Sequence[InService], now: datetime) -> None:
        """Slurm would wait half an hour (ResumeTimeout). ParallelCluster also takes such a check for a failed boot. The
        reason counts the failure against the instance's type."""
        for node, instance in booting:
            if instance.instance_id in self._booting and (reason := self._failed(instance, now)):
                words_ = retry.reason(f"{failing.CHECKED}it does not boot: {reason}", retry.INSTANCE_GONE_S)
                log.info("%s: %s", node.name, words_)
                _try(partial(slurm.set_down, [node.name], words_), node.name)

    def _failed(self, instance: ec2.Instance, now: datetime) -> str:
        failed = [name for check, name in CHECKS.items() if self._has_failed(instance, check, now)]
        return f"{FAILING}: {', '.join(failed)} impaired" if failed else ""

    def _has_failed(self, instance: ec2.Instance, check: str, now: datetime) -> bool:
        since = self._failing.get((instance.instance_id, check))
        return self._checked and since is not None and now - since >= CHECK_FAILS

    def _watch(self, node: str, instance: ec2.Instance) -> ends.Watch:
        return self._watches.setdefault(instance.instance_id, ends.Watch(node))


InService = tuple[slurm.Node, ec2.Instance]


def _try(do: Callable[[], None], node: str) -> None:
    """One node's refusal must not block the others."""
    try:
        do()
    except slurm.SlurmError as error:
        log.warning("%s: will look again: %s", node, error)
