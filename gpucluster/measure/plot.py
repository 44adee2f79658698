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

FORMATS = (".png", ".svg", ".pdf")


def check(path: Path) -> None:
    """Checks the path before hours of runs. Raises UsageError."""
    if path.suffix not in FORMATS:
        raise UsageError(f"--plot {path}: must end with {' or '.join(FORMATS)}, got {path.suffix or 'nothing'}")
    if not path.absolute().parent.is_dir():
        raise UsageError(f"--plot {path}: no such directory", f"mkdir -p {path.parent}")
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise UsageError("--plot needs matplotlib, which is not installed", shipped.how_to_install("plot")) from None


def plot(found: Report, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    panels: list[Callable[[Any], None]] = [lambda axes: _throughput(axes, found), lambda axes: _efficiency(axes, found)]
    panels += [lambda axes, name=name: _outcome(axes, found, name) for name in found.metrics]  # type: ignore[misc]
    figure, all_axes = pyplot.subplots(1, len(panels), figsize=(5 * len(panels), 4), layout="constrained")
    for panel, axes in zip(panels, all_axes, strict=True):
        panel(axes)
        axes.set_xlabel("ranks")
        axes.grid(alpha=0.3)
    all_axes[0].legend()
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def _ways(found: Report) -> dict[str, list[Row]]:
    ways: dict[str, list[Row]] = {}
    for row in found.rows:
        ways.setdefault(row.setting.way, []).append(row)
    return ways


def _curve(axes: Axes, label: str, points: list[tuple[int, Estimate]]) -> None:
    if points:
        ranks, values = zip(*points, strict=True)
        noise = [value.half_width or 0.0 for value in values]
        axes.errorbar(ranks, [value.mean for value in values], yerr=noise, marker="o", capsize=3, label=label)


def _throughput(axes: Axes, found: Report) -> None:
    for way, rows in _ways(found).items():
        _curve(axes, way, [(row.ranks, row.throughput) for row in rows if row.throughput])
    first = next((row for row in found.rows if row.throughput), None)
    if first and first.throughput:
        ranks = sorted({first.ranks, max(row.ranks for row in found.rows)})
        ideal = [first.throughput.mean * each / first.ranks for each in ranks]
        axes.plot(ranks, ideal, linestyle="--", color="grey", label="linear")
    axes.set_title(f"throughput{', ' + found.unit if found.unit else ''}")
    axes.set_ylim(bottom=0)


def _efficiency(axes: Axes, found: Report) -> None:
    for way, rows in _ways(found).items():
        points = [(row.ranks, 100 * row.efficiency) for row in rows if row.efficiency is not None]
        axes.plot([x for x, _ in points], [y for _, y in points], marker="o", label=way)
    axes.set_title("scaling efficiency, %")
    axes.set_ylim(bottom=0)


def _outcome(axes: Axes, found: Report, name: str) -> None:
    for way, rows in _ways(found).items():
        _curve(axes, way, [(row.ranks, value) for row in rows if (value := row.finals[name])])
    axes.set_title(name)
