"""Runs of `gpucluster bench` as plots: each is a job whose name ends with its launcher and its number of nodes
(measure/settings.py)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from gpucluster.following.jobs import Ending
from gpucluster.launchers import LAUNCHERS
from gpucluster.measure.report import Report, Row, report, table
from gpucluster.measure.runs import Run
from gpucluster.measure.settings import PLAIN, Setting
from gpucluster.ui.drawing import Plot, plot
from gpucluster.ui.reading import Reader
from gpucluster.ui.source import HistoryRow

MOST_RUNS = 100
"""The newest ones of a benchmark."""
_NAME = re.compile(rf"(?P<bench>.+)-(?P<launcher>{'|'.join(map(re.escape, LAUNCHERS))})-(?P<nodes>\d{{1,5}})")


def context(reader: Reader, query: Mapping[str, str]) -> dict[str, Any]:
    answer = reader.history()
    found = benches(answer.value or ())
    name = query.get("name", "")
    name = name if name in found else next(iter(found), "")
    shown: dict[str, Any] = {"answer": answer, "names": list(found), "name": name}
    if name:
        results = reader.results([row.job_id for row in found[name]])
        shown |= {"results": results, **_compared(found[name], results.value or {})}
    return shown


def benches(rows: Sequence[HistoryRow]) -> dict[str, list[HistoryRow]]:
    """Name -> its runs that have ended; those of several sizes or launchers, the newest benchmark first."""
    groups: dict[str, list[HistoryRow]] = {}
    for row in rows:
        if row.phase == "done" and (found := _NAME.fullmatch(row.name)):
            groups.setdefault(found["bench"], []).append(row)
    return {name: runs[:MOST_RUNS] for name, runs in groups.items() if len({run.name for run in runs}) > 1}


def _compared(rows: Sequence[HistoryRow], results: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    runs = [_run(row, dict(results[row.job_id])) for row in rows if row.job_id in results]
    metrics = list(dict.fromkeys(name for run in runs for name in (run.ending.result.get("metrics") or {})))
    compared = report(sorted(runs, key=lambda run: (run.setting.launcher, run.setting.nodes)), metrics)
    return {"table": table(compared), "plots": plots(compared), "by_time": compared.by_time}


def _run(row: HistoryRow, result: dict[str, Any]) -> Run:
    found = _NAME.fullmatch(row.name)
    assert found
    setting = Setting(found["launcher"], PLAIN, int(found["nodes"]))
    return Run(setting, row.job_id, Ending(row.state, result), int(result.get("world_size") or setting.nodes))


def plots(compared: Report) -> list[Plot]:
    """Speed-up and efficiency by the number of ranks."""
    ways: dict[str, list[Row]] = {}
    for row in compared.rows:
        if row.speed_up is not None:
            ways.setdefault(row.setting.way, []).append(row)
    ideal = [(row.ranks, row.ranks / (row.base or row).ranks) for rows in ways.values() for row in rows]
    speed_up = {way: [(row.ranks, row.speed_up or 0.0) for row in rows] for way, rows in ways.items()}
    efficiency = {way: [(row.ranks, 100 * (row.efficiency or 0.0)) for row in rows] for way, rows in ways.items()}
    if not ways:
        return []
    return [
        plot("Speed-up", "ranks", "×", speed_up, sorted(set(ideal))),
        plot("Efficiency", "ranks", "%", efficiency, [(x, 100.0) for x in sorted({x for x, _ in ideal})]),
    ]
