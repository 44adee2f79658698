"""Divides each node's time, from its launch to its end, among the jobs that caused it.

Jobs that run side by side divide it by their shares of the node's CPUs or GPUs, whichever is greater. The time before
the first job belongs to the jobs that start then, and the time after a job to the jobs that ended last, until the next
one starts. Of a node that is always on, time without a job is the cluster's own; so is a node that no job used.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from gpucluster.following.lives import HEAD, Life, Run
from gpucluster.hardware.instances import INSTANCE_TYPES

Kind = Literal["used", "boot", "tail", "idle", "head", "beside"]
DAY_S = 86400
SHORTEST_S = 1.0
Price = Callable[[str, str], float | None]
"""From an instance type and a purchase option to USD an hour; None if it is not known."""


@dataclass(frozen=True)
class Charge:
    run: Run | None
    """None: the cluster's own."""
    kind: Kind
    """boot and tail: before and after a job. idle: the cluster's own node without a job. beside: what is no node."""
    node: str
    """Or what it is, if it is no node."""
    type: str
    purchase: str
    begin: float
    end: float
    share: float
    usd: float | None
    """None if the type's price is not known."""
    always_on: bool = False

    @property
    def node_hours(self) -> float:
        return 0.0 if self.kind == "beside" else (self.end - self.begin) * self.share / 3600

    @property
    def partition(self) -> str:
        return self.run.partition if self.run else self.node.rpartition("-")[0]

    @property
    def idle_usd(self) -> float:
        return (self.usd or 0.0) if self.kind in ("boot", "tail", "idle") else 0.0

    @property
    def failed_usd(self) -> float:
        return (self.usd or 0.0) if self.run and self.run.failed else 0.0

    @property
    def waiting_usd(self) -> float:
        """The time in which its ranks waited for data."""
        if self.run is None or self.run.failed or self.kind != "used":
            return 0.0
        return (self.usd or 0.0) * self.run.waits_percent / 100


def of(
    lives: Iterable[Life], runs: Iterable[Run], always_on: Collection[str], price: Price, since_s: float, until_s: float
) -> list[Charge]:
    """What was spent between the two times, in pieces of at most a day in UTC."""
    return [
        charge
        for life, on_it in _with_runs(lives, runs)
        for begin, end, kind, shares in _of_life(life, on_it, always_on)
        for charge in _charges(life, begin, end, kind, shares, price, since_s, until_s, life.node in always_on)
    ]


def _with_runs(lives: Iterable[Life], runs: Iterable[Run]) -> Iterator[tuple[Life, list[Run]]]:
    """Each instance with the runs that may have been on it. A node has one instance after the other."""
    of_node: dict[str, list[Life]] = {}
    for life in sorted(lives, key=lambda life: life.seen):
        of_node.setdefault(life.node, []).append(life)
    found: dict[str, list[tuple[Life, list[Run]]]] = {
        node: [(life, []) for life in several] for node, several in of_node.items()
    }
    seen = {node: [life.seen for life in several] for node, several in of_node.items()}
    for run in runs:
        for node in run.nodes if run.started is not None else ():
            for life, on_it in found.get(node, ())[bisect_left(seen.get(node, ()), run.started or 0.0) :]:
                if run.ended is None or life.launched < run.ended:
                    on_it.append(run)
    for several in found.values():
        yield from several


def beside(usd_an_hour: Mapping[str, float], since_s: float, until_s: float) -> Iterator[Charge]:
    """What the cluster has beside nodes, by name."""
    for name, usd in usd_an_hour.items():
        for begin, end in _days(since_s, until_s):
            yield Charge(None, "beside", name, "", "", begin, end, 1.0, usd * (end - begin) / 3600)


def unrecorded(
    lives: Iterable[Life], runs: Iterable[Run], recorded_since: float, type_of: Callable[[str], str], now: float
) -> Iterator[Life]:
    """For nodes whose instances were not recorded: only the time in which jobs ran. type_of: from a partition to the
    instance type of its nodes, empty if that is not known."""
    known: dict[str, list[Life]] = {}
    for life in lives:
        known.setdefault(life.node, []).append(life)
    wanted: dict[str, list[tuple[float, float, str]]] = {}
    for run in runs:
        if run.started is None or run.started >= recorded_since:
            continue
        ended = now if run.ended is None else run.ended
        for node in run.nodes:
            if not any(life.launched < ended and run.started < life.seen for life in known.get(node, ())):
                wanted.setdefault(node, []).append((run.started, ended, run.partition))
    for node, times in wanted.items():
        for begin, end, partition in _joined(times):
            yield Life(node, type_of(partition), "", begin, end)


def _joined(times: Sequence[tuple[float, float, str]]) -> Iterator[tuple[float, float, str]]:
    """Times that overlap, as one."""
    begin, end, partition = min(times)
    for each in sorted(times):
        if each[0] > end:
            yield begin, end, partition
            begin, end, partition = each
        end = max(end, each[1])
    yield begin, end, partition


Piece = tuple[float, float, Kind, Mapping[Run | None, float]]


def _of_life(life: Life, runs: Sequence[Run], always_on: Collection[str]) -> Iterator[Piece]:
    """The shares of each piece add up to 1."""
    if life.node == HEAD:
        yield life.launched, life.seen, "head", {None: 1.0}
        return
    starts, ends = _events(life, runs)
    first = starts[min(starts)] if starts else []
    active: list[Run] = []
    last: list[Run] = []
    for begin, end in pairwise(sorted({life.launched, life.seen, *starts, *ends})):
        over = ends.get(begin, [])
        active = [run for run in active if run not in over] + starts.get(begin, [])
        last = over or last
        if active:
            yield begin, end, "used", _shares(active, life)
        elif life.node in always_on or not first:
            yield begin, end, "idle", {None: 1.0}
        else:
            yield begin, end, "tail" if last else "boot", _shares(last or first, life)


def _events(life: Life, runs: Sequence[Run]) -> tuple[dict[float, list[Run]], dict[float, list[Run]]]:
    """The runs that start, and those that end, at each moment of the instance's life. One that ended in the second in
    which it started has caused the boot before it, too: it counts a second."""
    starts: dict[float, list[Run]] = {}
    ends: dict[float, list[Run]] = {}
    for run in runs:
        ended = life.seen if run.ended is None else run.ended
        if run.started is None or run.started > life.seen - SHORTEST_S or ended <= life.launched:
            continue
        begin = max(life.launched, run.started)
        starts.setdefault(begin, []).append(run)
        ends.setdefault(min(life.seen, max(ended, begin + SHORTEST_S)), []).append(run)
    return starts, ends


def _shares(runs: Sequence[Run], life: Life) -> dict[Run | None, float]:
    weights = {run: _weight(run, life) for run in runs}
    whole = sum(weights.values())
    return {run: weight / whole for run, weight in weights.items()}


def _weight(run: Run, life: Life) -> float:
    """Its part of the node's CPUs or GPUs. A job without either, such as a very old record, counts as one CPU."""
    kind = INSTANCE_TYPES.get(life.type)
    cpus, gpus = (kind.vcpus, kind.gpus) if kind else (1, 0)
    nodes = max(len(run.nodes), 1)
    of_gpus = run.gpus / nodes / gpus if gpus else 0.0
    return max(max(run.cpus, 1) / nodes / cpus, of_gpus)


def _charges(
    life: Life,
    begin: float,
    end: float,
    kind: Kind,
    shares: Mapping[Run | None, float],
    price: Price,
    since_s: float,
    until_s: float,
    always_on: bool,
) -> Iterator[Charge]:
    an_hour = price(life.type, life.purchase)
    for first, last in _days(max(begin, since_s), min(end, until_s)):
        for run, share in shares.items():
            usd = None if an_hour is None else an_hour * (last - first) / 3600 * share
            yield Charge(run, kind, life.node, life.type, life.purchase, first, last, share, usd, always_on)


def _days(begin: float, end: float) -> Iterator[tuple[float, float]]:
    """The time in pieces that end at midnight UTC."""
    while begin < end:
        until = min(end, (begin // DAY_S + 1) * DAY_S)
        yield begin, until
        begin = until
