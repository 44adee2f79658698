"""Why a running job is slower than it could be: from the samples of its nodes, NCCL's reports and its log.

`judge` is pure. Nothing is said of a job's first minutes, in which it loads and compiles.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import mean, median
from typing import Any

from gpucluster.following import usage
from gpucluster.following.known.cause import Found, all_of
from gpucluster.following.known.table import BY_ID, CAUSES
from gpucluster.following.usage import NodeNow, Series
from gpucluster.hardware import instances
from gpucluster.head.remote import Remote
from gpucluster.head.slurm import Job

WINDOW_S = 600.0
WARM_UP_S = 180.0
_NAMES = (
    "gpu_util_percent", "gpu_sm_clock_mhz", "cpu_percent", "io_wait_percent", "disk_read_gib_s", "network_gib_s",
    "efa_gib_s", "efa_retransmits_s",
)  # fmt: skip
_LINKED = ("v100", "a100", "h100", "h200", "b200", "b300")
"""GPUs with NVLink: only between these is a way through host memory a loss."""

# The head node's time; seconds since the job's script started; the job's nodes in one line; what its preflight expects;
# lines of NCCL's reports of the first ranks, and of torch in the log's beginning. Everything is bounded.
_READ = r"""
date +%s
stat -c %Y "$1/started" 2>/dev/null || echo 0
scontrol show hostnames "$2" | tr '\n' ' '; echo
{ head -c 20000 "$1/preflight/expected.json" 2>/dev/null || echo '{}'; } | tr '\n' ' '; echo
for rank in 0 1; do
  set -- "$1" "$2" "$1"/nccl/rank-$rank.*.txt
  [ -f "$3" ] && head -c 2000000 "$3" |
    grep -aE 'nNodes [0-9]|via (SHM|NET)/|No plugin found|Using network|optimal provider|output empty list' |
    cut -c1-300 | head -n 100
done
head -c 4000000 "$1/log.txt" 2>/dev/null | grep -am1 'This DataLoader will create' | cut -c1-600
"""


@dataclass(frozen=True)
class Seen:
    nodes: tuple[str, ...] = ()
    series: Sequence[Series] = ()
    now: Sequence[NodeNow] = ()
    expects_efa: bool = False
    linked: bool = False
    """Its GPUs have NVLink."""
    lines: str = ""
    """NCCL's reports and the log."""


@dataclass(frozen=True)
class Slowness:
    found: list[Found] = field(default_factory=list)
    lacks: list[str] = field(default_factory=list)
    """What cannot be told, and why."""


def of(remote: Remote, job: Job, folder: str) -> Slowness:
    """For a running job; empty for others."""
    if job.phase != "running" or not job.node_list:
        return Slowness()
    done = remote.run(["sh", "-c", _READ, "sh", folder, job.node_list])
    now, began, names, expected, *lines = [*done.stdout.splitlines(), *[""] * 4]
    age_s = int(now) - int(began) if now.isdecimal() and began.isdecimal() and began != "0" else 0
    if age_s < WARM_UP_S:
        return Slowness()
    seen = replace(_expected(expected), nodes=tuple(names.split()), lines="\n".join(lines))
    try:
        end, since = float(now), float(now) - min(WINDOW_S, age_s - WARM_UP_S / 2)
        gpus = usage.gpus_of(remote, job.job_id, seen.nodes, since, end)
        series = usage.own(usage.series(remote, seen.nodes, since, end, _NAMES), gpus)
        now_on = [node for node in usage.now(remote) if node.node in seen.nodes]
        seen = replace(seen, series=series, now=usage.own_now(now_on, gpus))
    except usage.Unavailable as error:
        return Slowness(judge(seen), [f"whether its GPUs, disks and network are busy cannot be told: {error}"])
    return Slowness(judge(seen, long=age_s > WINDOW_S))


def _expected(text: str) -> Seen:
    """preflight/expected.json, which its user may have changed."""
    try:
        found = json.loads(text)
        efa: Mapping[str, Any] = found["efa_interfaces"]
        counts = [int(count) for count in efa.values()]
    except (ValueError, KeyError, TypeError, AttributeError):
        return Seen()
    kinds = [instances.find(name) for name in efa]
    linked = bool(kinds) and all(kind is not None and kind.gpu_model in _LINKED for kind in kinds)
    return Seen(expects_efa=bool(counts) and min(counts) > 0, linked=linked)


def judge(seen: Seen, *, long: bool = True) -> list[Found]:
    """long: the samples are of ten minutes."""
    table = _Table(seen)
    return _together([*_logged(seen), *_of_gpus(table, long=long), *_of_nodes(table), *_of_clocks(table, seen)])


def _logged(seen: Seen) -> Iterator[Found]:
    for each in [*all_of(CAUSES, "NCCL", seen.lines), *all_of(CAUSES, "rank", seen.lines)]:
        over_network = each.cause.id in ("no-plugin", "tcp")
        if each.cause.state != "slow" or (over_network and not (seen.expects_efa and len(seen.nodes) > 1)):
            continue
        if each.cause.id != "shm-path" or seen.linked:
            yield each


class _Table:
    """Means of the window, by node or by node and GPU."""

    def __init__(self, seen: Seen) -> None:
        self.several, self.expects_efa = len(seen.nodes) > 1, seen.expects_efa
        self._means: dict[tuple[str, str, int | None], float] = {}
        for each in seen.series:
            values = [value for _, value in each.points if not math.isnan(value)]
            if values:
                self._means[each.name, each.node, each.gpu] = mean(values)

    def gpus(self, name: str) -> dict[tuple[str, int], float]:
        return {(node, gpu): v for (found, node, gpu), v in self._means.items() if found == name and gpu is not None}

    def nodes(self) -> list[str]:
        return list(dict.fromkeys(node for _, node, _ in self._means))

    def of(self, name: str, node: str) -> float | None:
        """None: nobody has measured it."""
        return self._means.get((name, node, None))


def _of_gpus(table: _Table, *, long: bool) -> Iterator[Found]:
    use = table.gpus("gpu_util_percent")
    if use and long and max(use.values()) < 5:
        yield _found("gpu-idle", "all its GPUs", f"{mean(use.values()):.0f} % for ten minutes")
        return
    for place, percent in use.items():
        others = [value for other, value in use.items() if other != place]
        if not others:
            continue
        middle, said = median(others), f"{percent:.0f} %, the others {median(others):.0f} %"
        if percent < 5 and mean(others) > 40:
            yield _found("one-gpu-idle", _gpu(place), said)
        elif len(others) >= 3 and percent < middle - 15 and all(abs(each - middle) <= 10 for each in others):
            yield _found("slow-rank", _gpu(place), said)


def _of_nodes(table: _Table) -> Iterator[Found]:
    use = table.gpus("gpu_util_percent")
    for node in table.nodes():
        gpus = [value for (name, _), value in use.items() if name == node]
        cpu, waits = table.of("cpu_percent", node), table.of("io_wait_percent", node) or 0.0
        read = table.of("disk_read_gib_s", node) or 0.0
        if gpus and cpu is not None and 5 <= mean(gpus) < 60:
            said = f"GPUs {mean(gpus):.0f} %, CPUs {cpu:.0f} %"
            if cpu > 90:
                yield _found("data-starved", node, said)
            elif cpu < 50 and (waits > 5 or read > 0.05):
                yield _found("storage-starved", node, f"{said}, {waits:.0f} % waiting for I/O, {read:.2f} GiB/s read")
        yield from _of_network(table, node)


def _of_network(table: _Table, node: str) -> Iterator[Found]:
    efa, other = table.of("efa_gib_s", node), table.of("network_gib_s", node) or 0.0
    if table.several and table.expects_efa and (efa or 0.0) < 0.001 and other > 0.05:
        yield _found("efa-unused", node, f"EFA {efa or 0:.3f} GiB/s, the other interfaces {other:.2f} GiB/s")
    if (again := table.of("efa_retransmits_s", node) or 0.0) > 100:
        yield _found("retransmits", node, f"{again:.0f} packets a second")


def _of_clocks(table: _Table, seen: Seen) -> Iterator[Found]:
    for node in seen.now:
        for gpu in node.gpus:
            if gpu.throttled:
                yield _found("throttled-gpu", _gpu((node.node, gpu.index)), ", ".join(gpu.throttled))
    use, clocks = table.gpus("gpu_util_percent"), table.gpus("gpu_sm_clock_mhz")
    busy = {place: clock for place, clock in clocks.items() if use.get(place, 0) > 50}
    for place, clock in busy.items():
        others = [value for other, value in busy.items() if other != place]
        if len(others) >= 2 and clock < 0.75 * median(others):
            yield _found("low-clock", _gpu(place), f"{clock:.0f} MHz, the others {median(others):.0f} MHz")


def _gpu(place: tuple[str, int]) -> str:
    return f"GPU {place[1]} of {place[0]}"


def _found(cause: str, where: str, said: str) -> Found:
    return Found(BY_ID[cause], BY_ID[cause].words, said, where)


def _together(found: Iterable[Found]) -> list[Found]:
    """Each cause once: a job of 64 nodes would fill pages."""
    by_cause: dict[str, list[Found]] = {}
    for each in found:
        by_cause.setdefault(each.cause.id, []).append(each)
    return [
        first if not more else replace(first, where=f"{first.where} and {len(more)} more")
        for first, *more in by_cause.values()
    ]
