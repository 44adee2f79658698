"""The limits on the cost of nodes: `max_usd_per_hour` of a partition, and `budget.monthly_usd` with another `at_limit`
than notify; and the end of a Capacity Block, before which a boot would be in vain. Launches wait while a limit is
reached. `budget_stop` ends running nodes.

The launches of a partition check its limit one after another, so that two of them do not spend the same money: the
second sees the first one's nodes in Slurm, which, unlike EC2, lists them at once.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gpucluster_node import ec2, ends, fleet, slurm, states
from gpucluster_node.aws import AWS_ERRORS, brief
from gpucluster_node.power import announced, observation, spending

log = logging.getLogger("limits")
LOCK_LIMIT_S = 900.0
"""The launch before may wait as long for EC2 (resume.ASK_S)."""
_alone: dict[str, threading.Lock] = {}
"""The lock of each partition."""
_PAID = frozenset({states.BOOTING, *states.IN_SERVICE})


@dataclass(frozen=True)
class Room:
    """How many nodes may be launched, and the limit that allows no more."""

    nodes: float
    why: str = ""

    def of(self, nodes: Sequence[str], *, together: bool) -> list[str]:
        """The nodes that may be launched; with `together`, all of them or none."""
        if self.nodes >= len(nodes):
            return list(nodes)
        return [] if together else list(nodes[: int(self.nodes)])


UNLIMITED = Room(math.inf)


@dataclass(frozen=True)
class Limits:
    cluster: fleet.Fleet
    ec2: Callable[[], Any]
    now: Callable[[], datetime]
    prices: Callable[[], Mapping[str, float]] = spending.prices
    launching: Callable[[], Collection[str]] = frozenset
    """Returns the nodes of all launches that are under way."""

    @contextmanager
    def one_at_a_time(self, partition: str) -> Iterator[None]:
        limited = self._max_usd_per_hour(partition) is not None
        with _locked(partition) if limited else nullcontext():
            yield

    def room(self, partition: str, templates: Sequence[fleet.LaunchTemplate]) -> Room:
        """Assumes the partition's most expensive instance type, because EC2 chooses among the types."""
        block = self._room_in_block(partition)
        if block.why:
            return block
        if self.cluster.monthly_usd is None and self._max_usd_per_hour(partition) is None:
            return UNLIMITED
        usd_per_hour = self.prices()
        month = self._room_this_month(partition, usd_per_hour)
        return month if month.why else self._room_now(partition, templates, usd_per_hour)

    def _room_in_block(self, partition: str) -> Room:
        """None once the block's nodes are drained. If EC2 does not say when it ends, the launch will show it."""
        found = self._partition(partition)
        if found is None or not (found.paid_in_advance and found.reservation_id):
            return UNLIMITED
        try:
            end = announced.blocks(self.ec2(), [found.reservation_id]).get(found.reservation_id)
        except AWS_ERRORS as error:
            log.warning("the end of %s is not known: %s", found.reservation_id, brief(error))
            return UNLIMITED
        if end is None or self.now() < end.at - end.drain_before:
            return UNLIMITED
        why = f"EC2 terminates its instances from {ends.utc(end.at)} on, and no more are launched in it"
        return Room(0, f"Capacity Block {found.reservation_id} ends: {why}")

    def _room_this_month(self, partition: str, usd_per_hour: Mapping[str, float]) -> Room:
        limit, found = self.cluster.monthly_usd, self._partition(partition)
        if limit is None or (found and found.paid_in_advance):
            return UNLIMITED
        usd = spending.this_month(self.cluster, usd_per_hour, self.now()).usd
        if usd < limit:
            return UNLIMITED
        return Room(0, f"the budget of {limit:g} USD a month is reached: the nodes have cost {usd:.2f} USD this month")

    def _room_now(
        self, partition: str, templates: Sequence[fleet.LaunchTemplate], usd_per_hour: Mapping[str, float]
    ) -> Room:
        limit = self._max_usd_per_hour(partition)
        if limit is None:
            return UNLIMITED
        highest = max((usd_per_hour.get(each.instance_type, 0.0) for each in templates), default=0.0)
        usd = self._usd_per_hour_now(partition, usd_per_hour, highest)
        reached = f"the limit of {limit:g} USD an hour of partition {partition} is reached"
        why = f"{reached}: its nodes cost {usd:.2f} USD an hour"
        free = limit - usd + 1e-9
        return Room(max(0, math.floor(free / highest)) if highest else math.inf, f"{why}, one more {highest:g}")

    def _usd_per_hour_now(self, partition: str, usd_per_hour: Mapping[str, float], highest: float) -> float:
        """The cost of the partition's launched nodes. A DOWN node costs money as long as it has an instance."""
        types = {each.node: each.instance_type for each in ec2.describe(self.ec2(), self.cluster) if each.node}
        launching = self.launching()
        paid = [
            node.name
            for node in slurm.nodes()
            if (of := self.cluster.partition_of(node.name)) and of.name == partition and node.name not in launching
            if node.name in types or observation.of_slurm(node) in _PAID
        ]
        return sum(usd_per_hour.get(types.get(name, ""), highest) for name in paid)

    def _max_usd_per_hour(self, name: str) -> float | None:
        partition = self._partition(name)
        return partition.max_usd_per_hour if partition else None

    def _partition(self, name: str) -> fleet.Partition | None:
        return next((each for each in self.cluster.partitions if each.name == name), None)


@contextmanager
def _locked(partition: str) -> Iterator[None]:
    lock = _alone.setdefault(partition, threading.Lock())
    if not lock.acquire(timeout=LOCK_LIMIT_S):
        raise TimeoutError(f"another launch of partition {partition} has waited for EC2 for {LOCK_LIMIT_S:g} s")
    try:
        yield
    finally:
        lock.release()
