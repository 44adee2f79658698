"""The curves of a job as JSON for the browser: its metrics, and what its GPUs and nodes did meanwhile."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gpucluster.ui.answers import Answer
from gpucluster.ui.reading import Reader

if TYPE_CHECKING:
    from gpucluster.following.usage import Series

NAMES = {
    "gpu_util_percent": "GPU utilization",
    "gpu_memory_gib": "GPU memory",
    "gpu_power_w": "GPU power",
    "cpu_percent": "CPU",
    "network_gib_s": "Network",
    "efa_gib_s": "EFA",
}
MOST_LINES = 16
"""More GPUs or nodes than these are shown as lowest, mean and highest; a chosen node shows each of its GPUs."""
MOST_METRICS = 24

Curve = dict[str, Any]


def charts(reader: Reader, job_id: str, node: str) -> dict[str, Any]:
    """`node`: only this one; empty: all nodes of the job."""
    job, found = reader.job(job_id), reader.metrics(job_id)
    names = list(found.value or ())
    lacks = [answer.problem for answer in (job, found) if answer.problem]
    shown = [_metric(name, (found.value or {})[name]) for name in names[:MOST_METRICS]]
    if len(names) > MOST_METRICS:
        lacks.append(f"{len(names) - MOST_METRICS} of {len(names)} metrics are not shown")
    if job.value and job.value.row.started_s is not None and job.value.node_list:
        nodes = [each for each in job.value.node_list if node in ("", each)]
        series = reader.series(job_id, nodes, job.value.row.started_s, job.value.row.ended_s, list(NAMES))
        lacks += _lacks(series)
        shown += usage(series.value or ())
    return {"charts": shown, "lacks": lacks}


def _lacks(series: Answer[Sequence[Series]]) -> list[str]:
    if series.problem:
        return [series.problem]
    return [] if series.value else ["there are no samples of this time: the job is too short or too old"]


def _metric(name: str, points: Iterable[Any]) -> Curve:
    known = list(points)
    values = [_finite(point.value) for point in known]
    return {"title": name, "unit": "", "lines": [{"name": name, "x": [point.time_s for point in known], "y": values}]}


def usage(found: Sequence[Series]) -> list[Curve]:
    by_name: dict[str, list[Series]] = {}
    for each in found:
        by_name.setdefault(each.name, []).append(each)
    return [
        {"title": NAMES[name], "unit": by_name[name][0].unit, "lines": _lines(by_name[name])}
        for name in NAMES
        if name in by_name and _is_known(by_name[name])
    ]


def _is_known(series: Sequence[Series]) -> bool:
    """EFA's curve of a cluster without EFA would say nothing."""
    return series[0].name != "efa_gib_s" or any(value for each in series for _, value in each.points)


def _lines(series: Sequence[Series]) -> list[dict[str, Any]]:
    if len(series) <= MOST_LINES:
        return [
            {
                "name": _label(each),
                "x": [at for at, _ in each.points],
                "y": [_finite(value) for _, value in each.points],
            }
            for each in sorted(series, key=lambda each: (each.node, each.gpu or 0))
        ]
    return _extent(series)


def _label(series: Series) -> str:
    return series.node if series.gpu is None else f"{series.node} GPU {series.gpu}"


def _extent(series: Sequence[Series]) -> list[dict[str, Any]]:
    """All series have the times of one query."""
    at: dict[float, list[float]] = {}
    for each in series:
        for time_s, value in each.points:
            if math.isfinite(value):
                at.setdefault(time_s, []).append(value)
    times = sorted(at)
    kinds: Mapping[str, Any] = {"lowest": min, "mean": lambda values: sum(values) / len(values), "highest": max}
    return [
        {"name": f"{kind} of {len(series)}", "x": times, "y": [kinds[kind](at[time_s]) for time_s in times]}
        for kind in kinds
    ]


def _finite(value: float) -> float | None:
    """JSON has no NaN."""
    return value if math.isfinite(value) else None
