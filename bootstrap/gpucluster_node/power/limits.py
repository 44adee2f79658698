"""The limits on what nodes cost: `max_usd_per_hour` of a partition, and `budget.monthly_usd` with
`at_limit: stop-launches`. A launch waits while one is reached; nodes that run are left alone.

A partition's launches take turns, so that two of them do not use the same money: the second sees the first one's nodes
in Slurm, which, unlike EC2, shows them at once.
"""

from __future__ import annotations

import fcntl
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from gpucluster_node import ec2, fleet, slurm, states
from gpucluster_node.power import in_flight, spending, words

FOLDER = Path("/run/gpucluster/limits")
_PAID = frozenset({states.BOOTING, *states.IN_SERVICE})


@dataclass(frozen=True)
class Room:
    """How many nodes may be launched, and why no more."""

    nodes: float
    why: str = ""

    def of(self, nodes: Sequence[str], *, together: bool) -> list[str]:
        """Those that may be launched; together: all or none."""
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

    @contextmanager
    def turn(self, partition: str) -> Iterator[None]:
        limited = self._hourly(partition) is not None
        with _locked(FOLDER / partition) if limited else nullcontext():
            yield

    def room(self, partition: str, templates: Sequence[fleet.LaunchTemplate]) -> Room:
        """For nodes of the partition's dearest type, because it is not known which one EC2 will launch."""
        if self.cluster.monthly_usd is None and self._hourly(partition) is None:
            return UNLIMITED
        usd_per_hour = self.prices()
        month = self._of_month(partition, usd_per_hour)
        return month if month.why else self._of_hour(partition, templates, usd_per_hour)

    def _of_month(self, partition: str, usd_per_hour: Mapping[str, float]) -> Room:
        limit, found = self.cluster.monthly_usd, self._partition(partition)
        if limit is None or (found and found.paid_in_advance):
            return UNLIMITED
        usd = spending.this_month(self.cluster, usd_per_hour, self.now()).usd
        if usd < limit:
            return UNLIMITED
        return Room(0, f"the budget of {limit:g} USD a month is reached: the nodes have cost {usd:.2f} USD this month")

    def _of_hour(
        self, partition: str, templates: Sequence[fleet.LaunchTemplate], usd_per_hour: Mapping[str, float]
    ) -> Room:
        limit = self._hourly(partition)
        if limit is None:
            return UNLIMITED
        dearest = max((usd_per_hour.get(each.instance_type, 0.0) for each in templates), default=0.0)
        usd = self._running(partition, usd_per_hour, dearest)
        why = f"the budget of {limit:g} USD an hour of {partition} is reached: its nodes cost {usd:.2f} USD an hour"
        free = limit - usd + 1e-9
        return Room(max(0, math.floor(free / dearest)) if dearest else math.inf, f"{why}, one more {dearest:g}")

    def _running(self, partition: str, usd_per_hour: Mapping[str, float], dearest: float) -> float:
        """Of nodes that are launched. A DOWN node costs as long as it has an instance."""
        types = {each.node: each.instance_type for each in ec2.describe(self.ec2(), self.cluster) if each.node}
        launching = in_flight.nodes()
        paid = [
            node.name
            for node in slurm.nodes()
            if (of := self.cluster.partition_of(node.name)) and of.name == partition and node.name not in launching
            if node.name in types or words.of_slurm(node) in _PAID
        ]
        return sum(usd_per_hour.get(types.get(name, ""), dearest) for name in paid)

    def _hourly(self, name: str) -> float | None:
        partition = self._partition(name)
        return partition.max_usd_per_hour if partition else None

    def _partition(self, name: str) -> fleet.Partition | None:
        return next((each for each in self.cluster.partitions if each.name == name), None)


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
