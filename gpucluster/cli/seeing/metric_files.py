"""A job's metrics and samples as curves, CSV, JSON and plots."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import click

from gpucluster.cli.frame import screen
from gpucluster.cli.seeing.curves import Curve
from gpucluster.errors import RemoteError, UsageError
from gpucluster.following import metrics
from gpucluster.following.metrics import Point
from gpucluster.following.usage import UNITS, Series
from gpucluster.head.remote import Remote
from gpucluster.meant import did_you_mean

_LEGEND = 16
"""Curves of one panel that are named."""
_TOO_LARGE = 1e300
"""matplotlib has no axis for a loss that has grown so far."""


@dataclass(frozen=True)
class Found:
    job_id: str
    names: Sequence[str]
    """Those that were asked for; empty: all."""
    points: dict[str, list[Point]]
    samples: list[Series]
    lacks: list[str]

    def curves(self) -> list[Curve]:
        own = [_curve(name, points) for name, points in self.points.items() if points]
        return own + list(map(_sampled, self.samples) if self.names else _means(self.samples))


def read(remote: Remote, job_id: str, names: Sequence[str], *, expected: bool = True) -> Found:
    """`expected`: raises UsageError for a name that the job has not."""
    own = [name for name in names if name not in UNITS]
    points = metrics.points(remote, job_id, own) if own or not names else {}
    if expected and (missing := [name for name in own if name not in points]):
        raise _unknown(remote, job_id, missing[0])
    samples, lacks = [], []
    wanted = [name for name in names if name in UNITS]
    if wanted or not names:
        try:
            samples = [each for each in metrics.samples(remote, job_id, wanted) if each.points]
        except RemoteError as error:  # the job's own metrics are shown without them
            lacks = [error.message]
    return Found(job_id, names, points, samples, lacks)


def _unknown(remote: Remote, job_id: str, name: str) -> UsageError:
    known = [*map(screen.one_line, metrics.points(remote, job_id)), *UNITS]
    hint = did_you_mean(name, known) or f"it has {', '.join(known)}"
    return UsageError(f"job {job_id} has no metric {name!r}", hint)


def _curve(name: str, points: Sequence[Point]) -> Curve:
    return Curve(name, "", "", [(each.time_s, each.value) for each in points], points[-1].step)


def _sampled(series: Series) -> Curve:
    gpu = "" if series.gpu is None else f" GPU {series.gpu}"
    return Curve(series.name, f"{series.node}{gpu}", series.unit, series.points)


def _means(samples: Sequence[Series]) -> Iterator[Curve]:
    by_name: dict[str, list[Series]] = {}
    for each in samples:
        by_name.setdefault(each.name, []).append(each)
    for name, several in by_name.items():
        values: dict[float, list[float]] = {}
        for at, value in (point for each in several for point in each.points):
            values.setdefault(at, []).append(value)
        what = "GPU" if several[0].gpu is not None else "node"
        of = f"mean of {len(several)} {what}s" if len(several) > 1 else _sampled(several[0]).of
        yield Curve(name, of, several[0].unit, [(at, fmean(values[at])) for at in sorted(values)])


def as_json(found: Found) -> dict[str, Any]:
    points = {
        name: [{"time_s": each.time_s, "step": each.step, "value": _plain(each.value)} for each in points]
        for name, points in found.points.items()
    }
    samples = [
        {
            "name": each.name,
            "unit": each.unit,
            "node": each.node,
            "gpu": each.gpu,
            "points": [[at, _plain(value)] for at, value in each.points],
        }
        for each in found.samples
    ]
    return {"job_id": found.job_id, "metrics": points, "samples": samples, "lacks": found.lacks}


def _plain(value: float) -> float | None:
    """JSON has no NaN."""
    return value if math.isfinite(value) else None


def write_csv(found: Found, file: str) -> None:
    """One value in a row; a value that is not finite is empty."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["time_s", "name", "step", "node", "gpu", "value"])
    for name, points in found.points.items():
        for each in points:
            rows.writerow([each.time_s, _cell(name), _text(each.step), "", "", _text(_plain(each.value))])
    for series in found.samples:
        for at, value in series.points:
            rows.writerow([at, series.name, "", series.node, _text(series.gpu), _text(_plain(value))])
    if file == "-":
        click.echo(text.getvalue(), nl=False)
    else:
        Path(file).write_text(text.getvalue(), encoding="utf-8", errors="backslashreplace")


def _text(value: float | None) -> str:
    return "" if value is None else str(value)


def _cell(name: str) -> str:
    """A spreadsheet takes a cell that begins so for a formula."""
    return f"'{name}" if name.startswith(("=", "+", "-", "@", "\t", "\r")) else name


def plot(found: Found, file: Path, kind: str) -> None:
    """A panel for each name; time in minutes since the first value. Raises UsageError."""
    from matplotlib.figure import Figure

    panels: dict[str, list[Curve]] = {}
    for curve in found.curves():
        panels.setdefault(curve.name, []).append(curve)
    if not panels:
        raise UsageError(f"job {found.job_id} has no values to draw", "; ".join(found.lacks) or None)
    begin = min(curve.points[0][0] for several in panels.values() for curve in several)
    across = min(2, len(panels))
    down = -(-len(panels) // across)
    figure = Figure(figsize=(6 * across, 3 * down), layout="constrained")
    for place, (name, several) in enumerate(panels.items(), start=1):
        axes = figure.add_subplot(down, across, place)
        for curve in several:
            minutes = [(at - begin) / 60 for at, _ in curve.points]
            values = [value if abs(value) < _TOO_LARGE else math.nan for _, value in curve.points]
            axes.plot(minutes, values, label=curve.of, linewidth=1)
        unit = several[0].unit
        title = screen.one_line(f"{name}{', ' + unit if unit else ''}")
        axes.set_title(title, parse_math=False)  # a name may have $
        axes.set_xlabel("minutes")
        axes.grid(alpha=0.3)
        if 1 < len(several) <= _LEGEND:
            axes.legend(fontsize="small")
    figure.savefig(file, format=kind, dpi=150)
