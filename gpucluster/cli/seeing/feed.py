"""Asks for the cluster's state again and again beside the picture, which stays alive while the head node is away."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean

from gpucluster.errors import GpuClusterError
from gpucluster.following.overview import NodeRow, Overview
from gpucluster.following.usage import NodeNow, Series, Unavailable, series
from gpucluster.head.remote import Remote

LATE_S = 10.0
"""From when on an answer is shown with its age; with a longer interval, after two of them."""
KEPT = 60
"""Samples of each node."""
_BEFORE_S, _STEP_S = 600.0, 10.0
_NAMES = ("gpu_util_percent", "cpu_percent")


def load_percent(now: NodeNow) -> float:
    """The mean of its GPUs; of a node without GPUs, its CPUs."""
    return fmean(gpu.util_percent for gpu in now.gpus) if now.gpus else now.cpu_percent


class History:
    """Node -> the load of its last samples, in percent. A sample that was seen before is not kept twice."""

    def __init__(self) -> None:
        self._seen_s: dict[str, float] = {}
        self._loads: dict[str, deque[float]] = {}

    def of(self, node: str) -> list[float]:
        return list(self._loads.get(node, ()))

    def take(self, nodes: tuple[NodeRow, ...]) -> None:
        for now in (node.usage for node in nodes if node.usage):
            self._add(now.node, now.at_s, load_percent(now))

    def begin(self, remote: Remote, seen: Overview) -> None:
        """With the last minutes, as far as the head node has samples of them."""
        names = [node.name for node in seen.nodes if node.usage]
        if not names:
            return
        with contextlib.suppress(Unavailable):
            found = series(remote, names, seen.at_s - _BEFORE_S, seen.at_s, _NAMES, _STEP_S)
            for node, points in _loads(found).items():
                for at_s in sorted(points):
                    self._add(node, at_s, fmean(points[at_s]))

    def _add(self, node: str, at_s: float, percent: float) -> None:
        if at_s > self._seen_s.get(node, 0.0):
            self._seen_s[node] = at_s
            self._loads.setdefault(node, deque(maxlen=KEPT)).append(percent)


def _loads(found: Sequence[Series]) -> dict[str, dict[float, list[float]]]:
    """Node -> time -> the loads of its GPUs, or of its CPUs if it has none."""
    have_gpus = {each.node for each in found if each.gpu is not None}
    loads: dict[str, dict[float, list[float]]] = {}
    for each in found:
        if (each.gpu is None) == (each.node not in have_gpus):
            for at_s, value in each.points:
                loads.setdefault(each.node, {}).setdefault(at_s, []).append(value)
    return loads


@dataclass
class Seen:
    """What is known, and since when."""

    overview: Overview
    at: float
    """time.monotonic() of the answer."""
    problem: str = ""
    """Why there is no newer answer."""
    loads: Mapping[str, list[float]] = field(default_factory=dict)
    late_s: float = LATE_S

    @property
    def age_s(self) -> float:
        return time.monotonic() - self.at

    @property
    def is_stale(self) -> bool:
        return bool(self.problem) or self.age_s > self.late_s


class Feed:
    def __init__(self, ask: Callable[[], Overview], first: Overview, history: History, interval_s: float) -> None:
        self._ask, self._history, self._interval_s = ask, history, interval_s
        self._over = threading.Event()
        self._seen = self._of(first)
        self._thread = threading.Thread(target=self._go, daemon=True)

    @property
    def seen(self) -> Seen:
        return self._seen

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Does not wait for an answer that is still awaited."""
        self._over.set()

    def _of(self, overview: Overview) -> Seen:
        self._history.take(overview.nodes)
        loads = {row.name: self._history.of(row.name) for row in overview.nodes}
        return Seen(overview, time.monotonic(), "", loads, max(LATE_S, 2 * self._interval_s))

    def _go(self) -> None:
        while not self._over.wait(self._interval_s):
            try:
                self._seen = self._of(self._ask())
            except GpuClusterError as error:  # such as a head node that restarts: the next question may reach it
                self._seen = replace(self._seen, problem=error.message)
            except Exception as error:  # noqa: BLE001 - this thread's end would leave an old picture without a reason
                self._seen = replace(self._seen, problem=f"unexpected {type(error).__name__}: {error}")
