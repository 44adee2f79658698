"""What jobs cost: their nodes' time at the list prices on demand, from Slurm's accounting and the head node's record of
its instances. `gpucluster/following/charges.py` says who pays for which time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache

from gpucluster import account
from gpucluster.config import ClusterConfig
from gpucluster.following import charges, lives
from gpucluster.following.charges import Charge
from gpucluster.hardware import prices
from gpucluster.head import arrays, spending
from gpucluster.head.remote import Remote

OWN = {"idle": "(always-on nodes without a job)", "head": "(head node)"}
"""Rows of the cluster's own time, shown last. No key of a job begins so: `_task`."""
UNUSED = "(nodes that no job used)"
MARGIN_S = 6 * 3600.0
"""A job before or after the time may have caused a node's time in it. To this, the partitions' idle time is added."""
RECORDS_AFTER_S = 3600.0
"""A new cluster launches no node before its head node records them."""


@dataclass(frozen=True)
class JobCost:
    job_id: str
    """An array is one job, 29, with all its elements."""
    name: str
    user: str
    partition: str
    state: str
    """The state of its newest run."""
    usd: float | None
    """None if the price of one of its nodes is not known."""
    idle_usd: float
    """The part of `usd` for its nodes' boots, and for their time without a job after it."""
    wasted_usd: float
    """The part of `usd` for runs that failed, and for the time in which ranks waited for data."""
    saved_usd: float | None
    """By spot capacity. None: nobody records what AWS charges for it."""
    node_hours: float
    failed_usd: float = 0.0
    """The part of `wasted_usd` that is of failed runs."""


@dataclass(frozen=True)
class Account:
    """All that was spent on nodes between two times."""

    charges: tuple[Charge, ...]
    since_s: float
    until_s: float
    begins: float
    """Since when there is anything to count: not before the cluster was made."""
    lacks: tuple[str, ...]
    """What is missing, in sentences."""


@dataclass(frozen=True)
class Row:
    key: str
    usd: float
    node_hours: float
    idle_usd: float
    failed_usd: float
    waiting_usd: float
    unpriced: bool = False
    """The price of one of its nodes is not known: `usd` lacks it."""


def read(
    remote: Remote, config: ClusterConfig, since_s: float, until_s: float, beside: Mapping[str, float] | None = None
) -> Account:
    """beside: what the cluster has beside nodes, in USD an hour. Raises RemoteError."""
    found = lives.read(remote, config.state_folder, since_s, until_s, _margin_s(config))
    return of(found, config, since_s, until_s, beside or {}, only_own=_only_own(config))


def of(
    found: lives.Records,
    config: ClusterConfig,
    since_s: float,
    until_s: float,
    beside: Mapping[str, float],
    *,
    only_own: bool,
) -> Account:
    """only_own: Slurm hides other users' jobs. Then the time of a node without a job of the caller may be another's."""
    until_s = min(until_s, found.now)
    always_on = {f"{each.name}-{n}" for each in config.every_partition for n in range(1, each.min_nodes + 1)}
    recorded = found.now if found.recorded_since is None else found.recorded_since
    before = charges.unrecorded(found.lives, found.runs, recorded, _type_of(config), found.now)
    all_lives = [*found.lives, *before]
    spent = charges.of(all_lives, found.runs, always_on, price(config.region), since_s, until_s)
    if only_own:
        spent = [each for each in spent if each.kind == "used"]
    begins = max(since_s, found.made or since_s)
    spent += charges.beside(beside, begins, until_s)
    lacks = _lacks(found, config, since_s, recorded, only_own=only_own)
    return Account(tuple(spent), since_s, until_s, begins, tuple(lacks))


def jobs(remote: Remote, config: ClusterConfig, since_s: float, until_s: float) -> list[JobCost]:
    """The jobs that cost something in this time, in order of their ids. Raises RemoteError."""
    return of_jobs(read(remote, config, since_s, until_s))


def so_far(remote: Remote, config: ClusterConfig, job_ids: Collection[str], *, elements: bool = False) -> list[JobCost]:
    """What these jobs, and those beside them, have cost. Raises RemoteError."""
    if not job_ids or config.accounting == "off":
        return []
    found = lives.since(remote, config.state_folder, job_ids, _margin_s(config))
    first = min((run.submitted for run in found.runs), default=found.now)
    spent = of(found, config, first, found.now, {}, only_own=_only_own(config))
    return of_jobs(spent, elements=elements)


def _margin_s(config: ClusterConfig) -> float:
    return MARGIN_S + 60 * max(each.idle_minutes for each in config.every_partition)


def of_jobs(found: Account, *, elements: bool = False) -> list[JobCost]:
    """elements: each element of an array is a job of its own."""
    by_job: dict[str, list[Charge]] = {}
    for each in found.charges:
        if each.run:
            job_id = each.run.job_id if elements else arrays.array_of(each.run.job_id)[0]
            by_job.setdefault(job_id, []).append(each)
    return [_job(job_id, by_job[job_id]) for job_id in sorted(by_job, key=_order)]


def _job(job_id: str, spent: Sequence[Charge]) -> JobCost:
    newest = max((each.run for each in spent if each.run), key=lambda run: run.started or 0.0)
    row = total(spent, job_id)
    return JobCost(
        job_id,
        newest.name,
        newest.user,
        newest.partition,
        newest.state,
        None if row.unpriced else row.usd,
        row.idle_usd,
        row.failed_usd + row.waiting_usd,
        None if any(each.purchase == "spot" for each in spent) else 0.0,
        row.node_hours,
        row.failed_usd,
    )


def _order(job_id: str) -> tuple[int, int]:
    number, index = arrays.array_of(job_id)
    return int(number) if number.isdecimal() else 0, index or 0


KEYS: dict[str, Callable[[lives.Run, Charge], str]] = {
    "job": lambda run, charge: arrays.array_of(run.job_id)[0],
    "user": lambda run, charge: run.user,
    "partition": lambda run, charge: run.partition,
    "task": lambda run, charge: _task(run.name),
}
TIMES = {"day": "%Y-%m-%d", "month": "%Y-%m"}
"""In UTC, like AWS's bills."""
BY = (*KEYS, *TIMES)


def rows(found: Account, by: str) -> list[Row]:
    """by: one of BY. The cluster's own time comes last."""
    groups: dict[str, list[Charge]] = {}
    for each in found.charges:
        groups.setdefault(_key(each, by), []).append(each)
    number = _order if by == "job" else lambda key: (0, 0)  # a job's name may be digits without end
    return [total(groups[key], key) for key in sorted(groups, key=lambda key: (key.startswith("("), number(key), key))]


def _task(name: str) -> str:
    """A user may call a job `(head node)`, to count as the cluster."""
    return f'"{name}"' if name.startswith("(") else name


def _key(charge: Charge, by: str) -> str:
    if by in TIMES:
        return datetime.fromtimestamp(charge.begin, UTC).strftime(TIMES[by])
    if charge.run:
        return KEYS[by](charge.run, charge)
    if charge.kind == "beside":
        return f"({charge.node})"
    return UNUSED if charge.kind == "idle" and not charge.always_on else OWN[charge.kind]


def total(spent: Iterable[Charge], key: str = "") -> Row:
    spent = list(spent)
    return Row(
        key,
        sum(each.usd or 0.0 for each in spent),
        sum(each.node_hours for each in spent),
        sum(each.idle_usd for each in spent),
        sum(each.failed_usd for each in spent),
        sum(each.waiting_usd for each in spent),
        any(each.usd is None for each in spent),
    )


SpotUsd = Callable[[str, float, float], float | None]
"""From an instance type and two times to what one cost between them; None if that is not known."""


def saved_by_spot(found: Account, spot_usd: SpotUsd) -> float | None:
    """None if the price of one of its nodes is not known."""
    saved = [_saved(each, spot_usd) for each in found.charges if each.purchase == "spot"]
    known = [each for each in saved if each is not None]
    return sum(known) if len(known) == len(saved) else None


def _saved(charge: Charge, spot_usd: SpotUsd) -> float | None:
    paid = spot_usd(charge.type, charge.begin, charge.end)
    return None if paid is None or charge.usd is None else charge.usd - paid * charge.share


def cents(usd: Sequence[float]) -> list[int]:
    """Whole cents whose sum is the rounded sum: the largest remainders are rounded up, of equal ones the first."""
    down = [int(each * 100 // 1) for each in usd]
    missing = round(sum(usd) * 100) - sum(down)
    order = sorted(range(len(usd)), key=lambda index: round(down[index] - usd[index] * 100, 6))
    for index in order[:missing]:
        down[index] += 1
    return down


def price(region: str) -> charges.Price:
    """On demand; nothing in a Capacity Block, which is paid in advance."""

    @cache
    def usd_an_hour(kind: str, purchase: str) -> float | None:
        return 0.0 if purchase == "capacity-block" else prices.usd(kind, region)

    return usd_an_hour


def per_hour(remote: Remote, config: ClusterConfig) -> float | None:
    """USD an hour of the compute nodes that run now, as the head node last counted them, at most a minute ago. None if
    it has not counted."""
    done = remote.run(["cat", f"{config.state_folder}/{spending.FILE}"])
    try:
        return sum(float(usd) for usd in json.loads(done.stdout)["usd_per_hour"].values())
    except (ValueError, LookupError, TypeError, AttributeError):
        return None


def _only_own(config: ClusterConfig) -> bool:
    """PrivateData of slurmdbd.conf (man slurmdbd.conf.5)."""
    return bool(config.users) and account.user() != account.ADMINISTRATOR


def _type_of(config: ClusterConfig) -> Callable[[str], str]:
    known = {each.name: each.instance_types for each in config.every_partition}

    def type_of(partition: str) -> str:
        types = known.get(partition, ())
        return types[0] if len(types) == 1 else ""

    return type_of


def _lacks(
    found: lives.Records, config: ClusterConfig, since_s: float, recorded: float, *, only_own: bool
) -> Iterable[str]:
    if config.accounting == "off":
        yield "`accounting: off`: Slurm keeps no records of jobs, so no cost belongs to a job"
    elif found.refused:
        yield f"Slurm's accounting does not answer, so no cost belongs to a job: {found.refused}"
    if only_own:
        yield "Slurm shows you only your own jobs: their nodes' boots and idle time are not included"
    if found.recorded_since is None:
        yield "the head node does not record its nodes yet: only the time in which jobs ran is counted"
    elif recorded > max(since_s, found.made or since_s) + RECORDS_AFTER_S:
        day = datetime.fromtimestamp(recorded, UTC).strftime("%Y-%m-%d %H:%M")
        yield f"nodes are recorded since {day} UTC: before that, only the time in which jobs ran is counted"
