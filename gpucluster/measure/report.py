"""Compares runs: throughput, speed-up, scaling efficiency and the metrics of each setting. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from gpucluster.following import data_wait
from gpucluster.measure.noise import Estimate, estimate, ratio_half_width
from gpucluster.measure.runs import THROUGHPUT, Run
from gpucluster.measure.settings import Setting


@dataclass(frozen=True)
class Row:
    """One setting. Speed-up is relative to the smallest size of the same launcher and variant; efficiency is that per
    rank."""

    setting: Setting
    runs: tuple[Run, ...]
    throughput: Estimate | None
    finals: dict[str, Estimate | None]
    """Metric -> the last value that each run printed."""
    base: Row | None = None

    @property
    def ranks(self) -> int:
        return self.runs[0].ranks

    @property
    def sound(self) -> tuple[Run, ...]:
        return tuple(run for run in self.runs if not run.failed)

    @property
    def data_wait_percent(self) -> float | None:
        """How much of their time the ranks waited for data; the mean of the runs."""
        known = [percent for run in self.sound if (percent := run.data_wait_percent) is not None]
        return fmean(known) if known else None

    @property
    def speed_up(self) -> float | None:
        base = (self.base or self).throughput
        return self.throughput.mean / base.mean if self.throughput and base and base.mean else None

    @property
    def speed_up_half_width(self) -> float | None:
        if self.base is None or self.base.throughput is None or self.throughput is None:
            return None
        return ratio_half_width(self.throughput, self.base.throughput)

    @property
    def efficiency(self) -> float | None:
        ratio = (self.base or self).ranks / self.ranks
        return None if self.speed_up is None else self.speed_up * ratio


@dataclass(frozen=True)
class Report:
    rows: tuple[Row, ...]
    by_time: bool
    """No metric is called throughput: it is runs per hour, from the jobs' elapsed time."""
    machines: int | None = None
    """The number of physical machines under the largest setting's nodes."""

    @property
    def unit(self) -> str:
        return "runs/hour" if self.by_time else ""

    @property
    def metrics(self) -> list[str]:
        return list(self.rows[0].finals) if self.rows else []


def chosen(asked: Collection[str], runs: Sequence[Run]) -> list[str]:
    """`asked`: the names in job.yaml or of --metrics. Without any, those that the program logs; the throughput that it
    logs always counts."""
    logged = list(dict.fromkeys(name for run in runs for name in run.metrics))
    return [*asked, *(name for name in logged if name not in asked and (not asked or name == THROUGHPUT))]


def report(runs: Sequence[Run], metrics: Sequence[str], machines: int | None = None, per_rank: bool = False) -> Report:
    """`metrics`: the names that the jobs define. `per_rank`: the printed throughput is that of one rank."""
    by_time = THROUGHPUT not in metrics
    finals = [name for name in metrics if name not in (THROUGHPUT, data_wait.METRIC)]
    rows, bases = list[Row](), dict[str, Row]()
    for setting in sorted({run.setting for run in runs}, key=[run.setting for run in runs].index):
        own = tuple(run for run in runs if run.setting == setting)
        row = _row(setting, own, finals, by_time, per_rank, bases.get(setting.way))
        rows.append(row)
        if row.throughput:
            bases.setdefault(setting.way, row)
    return Report(tuple(rows), by_time, machines)


def _row(
    setting: Setting, runs: tuple[Run, ...], finals: Sequence[str], by_time: bool, per_rank: bool, base: Row | None
) -> Row:
    speeds = [_speed(run, by_time) for run in runs if not run.failed]
    scaled = [speed * (runs[0].ranks if per_rank and not by_time else 1) for speed in speeds if speed is not None]
    last = {name: _last(runs, name) for name in finals}
    return Row(setting, runs, estimate(scaled), last, base)


def _speed(run: Run, by_time: bool) -> float | None:
    """The median of the values that a run printed, so that the first ones, during warm-up, count little."""
    if by_time:
        return 3600 / run.elapsed_s if run.elapsed_s else None
    speed: float | None = run.metric(THROUGHPUT).get("median")
    return speed


def _last(runs: Sequence[Run], name: str) -> Estimate | None:
    values = (run.metric(name).get("last") for run in runs if not run.failed)
    return estimate([value for value in values if value is not None])


def table(found: Report) -> list[list[str]]:
    """Rows of text under their headings."""
    speed = f"throughput, {found.unit}" if found.unit else "throughput"
    headings = ["launcher", "variant", "nodes", "ranks", "runs", speed, "speed-up", "efficiency", "data wait"]
    made = [[*headings, *found.metrics], *([*_about(row), *_measured(row)] for row in found.rows)]
    if not any(row.setting.target for row in found.rows):
        return made
    targets = ["target", *(row.setting.target for row in found.rows)]
    return [[target, *cells] for target, cells in zip(targets, made, strict=True)]


def _about(row: Row) -> list[str]:
    setting, sound = row.setting, len(row.sound)
    runs = str(sound) if sound == len(row.runs) else f"{sound} of {len(row.runs)}"
    return [setting.launcher, setting.variant.name or "-", str(setting.nodes), str(row.ranks), runs]


def _measured(row: Row) -> list[str]:
    speed_up = "-" if row.speed_up is None else f"{row.speed_up:.2f}x"
    if row.speed_up_half_width is not None:
        speed_up += f" ± {row.speed_up_half_width:.2f}"
    efficiency = "-" if row.efficiency is None else f"{100 * row.efficiency:.0f} %"
    wait = "-" if row.data_wait_percent is None else f"{row.data_wait_percent:.0f} %"
    return [text(row.throughput), speed_up, efficiency, wait, *map(text, row.finals.values())]


def text(value: Estimate | None) -> str:
    if value is None:
        return "-"
    noise = "" if value.half_width is None else f" ± {value.half_width:.2g}"
    return f"{value.mean:.4g}{noise}"


def as_json(found: Report, doubts: Sequence[str]) -> dict[str, Any]:
    return {
        "settings": [_row_json(row) for row in found.rows],
        "throughput_is": "runs per hour" if found.by_time else "the median of each run",
        "machines": found.machines,
        "doubts": list(doubts),
    }


def _row_json(row: Row) -> dict[str, Any]:
    return {
        **({"target": row.setting.target} if row.setting.target else {}),
        "launcher": row.setting.launcher,
        "variant": row.setting.variant.name,
        "nodes": row.setting.nodes,
        "ranks": row.ranks,
        "throughput": _estimate_json(row.throughput),
        "speed_up": row.speed_up,
        "speed_up_half_width": row.speed_up_half_width,
        "efficiency": row.efficiency,
        "data_wait_percent": row.data_wait_percent,
        "metrics": {name: _estimate_json(value) for name, value in row.finals.items()},
        "runs": [
            {"job_id": run.job_id, "state": run.ending.state, "elapsed_s": run.elapsed_s, "reason": run.ending.reason}
            for run in row.runs
        ],
    }


def _estimate_json(value: Estimate | None) -> dict[str, Any] | None:
    if value is None:
        return None
    return {"mean": value.mean, "half_width": value.half_width, "stdev": value.stdev, "values": list(value.values)}
