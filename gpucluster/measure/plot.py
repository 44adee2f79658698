"""The plot: throughput by size compared with the ideal, efficiency, and the runs' metrics."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpucluster import shipped
from gpucluster.errors import UsageError
from gpucluster.measure.noise import Estimate
from gpucluster.measure.report import Report, Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = (".png", ".svg", ".pdf")


def check(path: Path) -> None:
    """Checks the path before hours of runs. Raises UsageError."""
    if path.suffix not in FORMATS:
        raise UsageError(f"--plot {path}: must end with {' or '.join(FORMATS)}, got {path.suffix or 'nothing'}")
    check_place(path, "--plot")


def check_place(path: Path, option: str) -> None:
    """Raises UsageError."""
    if not path.absolute().parent.is_dir():
        raise UsageError(f"{option} {path}: no such directory", f"mkdir -p {path.parent}")
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise UsageError(f"{option} needs matplotlib, which is not installed", shipped.how_to_install("plot")) from None


def plot(found: Report, path: Path) -> None:
    draw(found).savefig(path, dpi=150)


def draw(found: Report) -> Figure:
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    panels: list[Callable[[Any], None]] = [lambda axes: _throughput(axes, found), lambda axes: _efficiency(axes, found)]
    panels += [lambda axes, name=name: _outcome(axes, found, name) for name in found.metrics]  # type: ignore[misc]
    figure = Figure(figsize=(5 * len(panels), 4), layout="constrained")
    for place, panel in enumerate(panels, start=1):
        axes = figure.add_subplot(1, len(panels), place)
        panel(axes)
        axes.set_xlabel("ranks")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        axes.grid(alpha=0.3)
    figure.axes[0].legend()
    return figure


def _ways(found: Report) -> dict[str, list[Row]]:
    ways: dict[str, list[Row]] = {}
    for row in found.rows:
        ways.setdefault(row.setting.way, []).append(row)
    return ways


def _style(place: int) -> dict[str, Any]:
    """Later curves are thinner: an equal one before them stays visible."""
    return {"marker": "o", "color": f"C{place}", "markersize": 4 + 8 / (1 + place), "linewidth": 1 + 4 / (1 + place)}


def _curve(axes: Axes, label: str, points: list[tuple[int, Estimate]], place: int) -> None:
    if points:
        ranks, values = zip(*points, strict=True)
        noise = [value.half_width or 0.0 for value in values]
        axes.errorbar(ranks, [value.mean for value in values], noise, capsize=3, label=label, **_style(place))


def _from_zero(axes: Axes) -> None:
    """With room above the highest point: values that are nearly equal have a margin of nearly nothing."""
    axes.set_ylim(0, axes.get_ylim()[1] * 1.08)


def _throughput(axes: Axes, found: Report) -> None:
    for place, (way, rows) in enumerate(_ways(found).items()):
        _curve(axes, way, [(row.ranks, row.throughput) for row in rows if row.throughput], place)
    first = next((row for row in found.rows if row.throughput), None)
    if first and first.throughput:
        ranks = sorted({first.ranks, max(row.ranks for row in found.rows)})
        ideal = [first.throughput.mean * each / first.ranks for each in ranks]
        axes.plot(ranks, ideal, linestyle="--", color="grey", label="linear")
    axes.set_title(f"throughput{', ' + found.unit if found.unit else ''}")
    _from_zero(axes)


def _efficiency(axes: Axes, found: Report) -> None:
    for place, (way, rows) in enumerate(_ways(found).items()):
        points = [(row.ranks, 100 * row.efficiency) for row in rows if row.efficiency is not None]
        axes.plot([x for x, _ in points], [y for _, y in points], label=way, **_style(place))
    axes.set_title("scaling efficiency, %")
    _from_zero(axes)


def _outcome(axes: Axes, found: Report, name: str) -> None:
    for place, (way, rows) in enumerate(_ways(found).items()):
        _curve(axes, way, [(row.ranks, value) for row in rows if (value := row.finals[name])], place)
    axes.set_title(name)
