"""The calls of the page's source with how long each answer stays fresh, so that many tabs are one call."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from gpucluster.following.arrays import Element
from gpucluster.head.mounted import Mount
from gpucluster.ui.answers import Answer, Answers
from gpucluster.ui.source import HistoryRow, Job, Script, Source

if TYPE_CHECKING:
    from gpucluster.following.cost import Account
    from gpucluster.following.explain import Explanation
    from gpucluster.following.logs import Selection
    from gpucluster.following.metrics import Point
    from gpucluster.following.overview import Overview
    from gpucluster.following.timeline import Span
    from gpucluster.following.usage import Series

Value = TypeVar("Value")
_OFTEN_S, _SOMETIMES_S, _SELDOM_S = 4.0, 15.0, 60.0
_LATE_S = 120.0


MOST_POINTS, FEWEST_POINTS, ALL_POINTS = 400, 60, 50_000
_GPUS = 8
"""The most that a node has."""


def points_of_each(nodes: int, names: int) -> int:
    """How many points each curve gets, so that a job of 512 GPUs is not a hundred times as slow as one of 8."""
    return min(MOST_POINTS, max(FEWEST_POINTS, ALL_POINTS // max(1, nodes * names * _GPUS)))


class NotRead(Exception):
    """Nothing is known yet, and the caller does not wait."""


@dataclass(frozen=True)
class Reader:
    source: Source
    answers: Answers
    waits: bool = True
    """False: only what is known already, so that a page's first content needs no cluster. Raises NotRead."""

    def _ask(self, key: Hashable, fresh_s: float, read: Callable[[], Value]) -> Answer[Value]:
        if self.waits:
            return self.answers.ask(key, fresh_s, read)
        if (found := self.answers.known(key)) is None:
            raise NotRead
        return found

    def overview(self) -> Answer[Overview]:
        return self._ask("overview", _OFTEN_S, self.source.overview)

    def history(self) -> Answer[Sequence[HistoryRow]]:
        return self._ask("history", _SOMETIMES_S, self.source.history)

    def _while_it_runs(self, fresh_s: float, job_id: str) -> float:
        """What an ended job left does not change. Its page may be open for a day, with a search in a log of gigabytes
        that takes the head node seconds. Files of other nodes come a little later."""
        answer = self.answers.known(("job", job_id))
        ended_s = answer.value.row.ended_s if answer and answer.value and answer.value.row.phase == "done" else None
        return fresh_s if ended_s is None or time.time() - ended_s < _LATE_S else 20 * _SELDOM_S

    def job(self, job_id: str) -> Answer[Job]:
        fresh_s = min(_SOMETIMES_S, self._while_it_runs(_OFTEN_S, job_id))  # it may run again
        return self._ask(("job", job_id), fresh_s, lambda: self.source.job(job_id))

    def log(self, job_id: str, selection: Selection) -> Answer[Sequence[str]]:
        fresh_s = self._while_it_runs(_OFTEN_S, job_id)
        return self._ask(("log", job_id, selection), fresh_s, lambda: self.source.log(job_id, selection))

    def metrics(self, job_id: str) -> Answer[Mapping[str, Sequence[Point]]]:
        fresh_s = self._while_it_runs(_OFTEN_S, job_id)
        return self._ask(("metrics", job_id), fresh_s, lambda: self.source.metrics(job_id))

    def series(
        self, job_id: str, nodes: Sequence[str], start_s: float, end_s: float | None, names: Sequence[str]
    ) -> Answer[Sequence[Series]]:
        """`end_s`: None while the job runs."""
        key = ("series", job_id, tuple(nodes), tuple(names))
        fresh_s = _SOMETIMES_S if end_s is None else 20 * _SELDOM_S

        def read() -> Sequence[Series]:
            until_s = time.time() if end_s is None else end_s
            step_s = max(1.0, (until_s - start_s) / points_of_each(len(nodes), len(names)))
            return self.source.series(job_id, nodes, start_s, until_s, names, step_s)

        return self._ask(key, fresh_s, read)

    def why(self, job_id: str) -> Answer[Explanation]:
        fresh_s = min(_SELDOM_S, self._while_it_runs(_SOMETIMES_S, job_id))
        return self._ask(("why", job_id), fresh_s, lambda: self.source.why(job_id))

    def timeline(self, job_id: str) -> Answer[Sequence[Span]]:
        fresh_s = min(_SELDOM_S, self._while_it_runs(_SOMETIMES_S, job_id))
        return self._ask(("timeline", job_id), fresh_s, lambda: self.source.timeline(job_id))

    def elements(self, job_id: str) -> Answer[Sequence[Element]]:
        return self._ask(("elements", job_id), _SOMETIMES_S, lambda: self.source.elements(job_id))

    def script(self, job_id: str) -> Answer[Script]:
        return self._ask(("script", job_id), 20 * _SELDOM_S, lambda: self.source.script(job_id))

    def code(self, job_id: str, path: str) -> Answer[str]:
        return self._ask(("code", job_id, path), 20 * _SELDOM_S, lambda: self.source.code(job_id, path))

    def results(self, job_ids: Sequence[str]) -> Answer[Mapping[str, Mapping[str, Any]]]:
        return self._ask(("results", *job_ids), _SELDOM_S, lambda: self.source.results(job_ids))

    def costs(self, days: int) -> Answer[Account]:
        def read() -> Account:
            now_s = time.time()
            return self.source.costs(now_s - days * 86400, now_s)

        return self._ask(("costs", days), _SELDOM_S, read)

    def storage(self) -> Answer[Sequence[Mount]]:
        return self._ask("storage", _SELDOM_S, self.source.storage)
