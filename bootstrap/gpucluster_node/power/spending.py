"""Counts what this cluster's compute nodes have cost this month: for each instance the time since its launch, times its
on-demand price. The sum is in a file on the data volume, which outlives the head node. Instances of Capacity Blocks are
not counted, because they are paid in advance.

The file has the launch time of each instance and the time when it was last seen, so no time is counted twice. While the
head node is down, the remaining time of instances that end is not counted. A month begins at midnight UTC, as in AWS
Budgets, whose own figures are up to a day late.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path

from gpucluster_node import ec2, files, fleet
from gpucluster_node.power import lifetimes

log = logging.getLogger("spending")
EVERY = timedelta(seconds=60)
WARN_AT = 0.8
UNREADABLE = (ValueError, LookupError, TypeError, AttributeError)
Use = tuple[str, str, str]
"""Instance type, launch, last seen."""


def path(cluster: fleet.Fleet) -> Path:
    return Path(cluster.state) / "spending.json"


def prices(bundle: Path = fleet.BUNDLE) -> dict[str, float]:
    """Instance type -> USD per hour on demand, of the types with a known price."""
    found: dict[str, float] = json.loads((bundle / "prices.json").read_text())
    return found


@dataclass(frozen=True)
class Spent:
    usd: float
    unpriced: tuple[str, ...] = ()
    """Instance types in use whose price is not known."""


class Ledger:
    """Writes the file: reconcile calls `update` in each of its rounds, and once a minute it writes."""

    def __init__(
        self, cluster: fleet.Fleet, usd_per_hour: Mapping[str, float], head: lifetimes.Life | None = None
    ) -> None:
        """head: recorded with the nodes' instances, and not counted."""
        self._path, self._prices, self._limit = path(cluster), usd_per_hour, cluster.monthly_usd
        self._cluster, self._lifetimes = cluster, lifetimes.Lifetimes(cluster, self._path.parent, head)
        self._written = datetime.min.replace(tzinfo=timezone.utc)
        self._warned = ""
        self.usd = 0.0
        """This month, when it was last counted."""

    def update(self, instances: Sequence[ec2.Instance], now: datetime) -> None:
        """now: with its time zone. An error is logged and not raised: a full disk must not end reconcile."""
        self._record(instances, now)
        if now - self._written < EVERY:
            return
        try:
            known = self._known(now)
            uses = _since(month_begin(now), known) | {
                each.instance_id: _use(each, now) for each in instances if self._costs(each)
            }
            found = spent(uses, self._prices, now)
            self.usd = found.usd
            _write(self._path, uses, found, self._per_hour(instances), now)
        except (OSError, ValueError) as error:
            log.error("%s: %s", self._path, error)
            return
        self._written = now
        self._warn(found.usd, now)

    def _record(self, instances: Sequence[ec2.Instance], now: datetime) -> None:
        try:
            self._lifetimes.look(instances, now)
        except (OSError, ValueError) as error:
            log.error("the instances' times are not recorded: %s", error)

    def _known(self, now: datetime) -> dict[str, Use]:
        """A file that cannot be read would block every launch. It is renamed, and the sum starts again with the running
        instances."""
        try:
            return _read(self._path)
        except UNREADABLE as error:
            aside = self._path.with_suffix(f".unreadable-{now:%Y-%m-%dT%H%M%SZ}")
            self._path.replace(aside)
            log.error("%s cannot be read: %s; it is kept as %s, and the sum starts at zero", self._path, error, aside)
            return {}

    def _costs(self, instance: ec2.Instance) -> bool:
        partition = self._cluster.partition_of(instance.node or "")
        return partition is None or not partition.paid_in_advance

    def _per_hour(self, instances: Sequence[ec2.Instance]) -> dict[str, float]:
        """Partition -> USD an hour that its instances cost now."""
        found = dict.fromkeys((each.name for each in self._cluster.partitions), 0.0)
        for each in instances:
            if partition := self._cluster.partition_of(each.node or ""):
                found[partition.name] += self._prices.get(each.instance_type, 0.0)
        return {name: round(usd, 4) for name, usd in found.items() if usd}

    def _warn(self, usd: float, now: datetime) -> None:
        this_month = f"{now:%Y-%m}"
        if self._limit and usd >= WARN_AT * self._limit and self._warned != this_month:
            log.warning("the nodes have cost %.2f of the budget's %.2f USD this month", usd, self._limit)
            self._warned = this_month


def month_begin(now: datetime) -> datetime:
    return now.astimezone(timezone.utc).replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def spent(uses: Mapping[str, Use], usd_per_hour: Mapping[str, float], now: datetime) -> Spent:
    begin = month_begin(now)
    usd = sum(_hours(launched, seen, begin) * usd_per_hour.get(kind, 0.0) for kind, launched, seen in uses.values())
    return Spent(usd, tuple(sorted({kind for kind, _, _ in uses.values() if kind not in usd_per_hour})))


def this_month(cluster: fleet.Fleet, usd_per_hour: Mapping[str, float], now: datetime) -> Spent:
    """Zero if there is no file. Raises one of UNREADABLE until the ledger has replaced a file that cannot be read."""
    return spent(_read(path(cluster)), usd_per_hour, now)


def _hours(launched: str, seen: str, begin: datetime) -> float:
    seconds = (datetime.fromisoformat(seen) - max(datetime.fromisoformat(launched), begin)).total_seconds()
    return max(0.0, seconds) / 3600


def _use(instance: ec2.Instance, now: datetime) -> Use:
    return instance.instance_type, instance.launch_time.isoformat(), now.isoformat()


def _since(begin: datetime, uses: Mapping[str, Use]) -> dict[str, Use]:
    return {each: use for each, use in uses.items() if datetime.fromisoformat(use[2]) >= begin}


def _read(file: Path) -> dict[str, Use]:
    if not file.exists():
        return {}
    return {each: _checked(*use) for each, use in json.loads(file.read_text())["instances"].items()}


def _checked(kind: str, launched: str, seen: str) -> Use:
    if not all(datetime.fromisoformat(time).tzinfo for time in (launched, seen)):
        raise ValueError(f"times without a time zone: {launched}, {seen}")
    return str(kind), launched, seen


def _write(file: Path, uses: Mapping[str, Use], found: Spent, per_hour: Mapping[str, float], now: datetime) -> None:
    value = {"month": f"{now:%Y-%m}", "usd": round(found.usd, 2), "unpriced": found.unpriced, "usd_per_hour": per_hour}
    value["instances"] = uses
    files.put(file, json.dumps(value))
