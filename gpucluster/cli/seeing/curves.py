"""Curves of a metric as lines of text, from Unicode's braille patterns (U+2800): each character has 2 x 4 dots."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from gpucluster.cli.frame import screen

ROWS = 5
_DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
"""A character's left and right column, from the top down (The Unicode Standard, Braille Patterns)."""
_ACROSS, _DOWN = len(_DOTS), len(_DOTS[0])
_LEAST_WIDTH = 10


@dataclass(frozen=True)
class Curve:
    name: str
    of: str
    """Whose values, such as `train-1 GPU 3`; empty for the job's."""
    unit: str
    points: Sequence[tuple[float, float]]
    """Unix seconds and value, oldest first."""
    last_step: int | None = None


def lines(curves: Sequence[Curve], width: int) -> list[str]:
    """All over the same time. Text that users wrote is shown as one line."""
    times = [at for curve in curves for at, _ in curve.points]
    if not times:
        return []
    span = min(times), max(times)
    labels = [_labels(_limits(curve)) for curve in curves]
    margin = max((len(label) for several in labels for label in several), default=0)
    found = []
    for curve, several in zip(curves, labels, strict=True):
        found += [_title(curve), *_drawn(curve, several, margin, width, span), ""]
    return [*found, _axis(*span, margin, width)]


def _title(curve: Curve) -> str:
    finite = [value for _, value in curve.points if math.isfinite(value)]
    unit = f" {curve.unit}" if curve.unit else ""
    said = [screen.one_line(curve.name), *filter(None, [screen.one_line(curve.of)])]
    if finite:
        said += [f"min {number(min(finite))}{unit}", f"max {number(max(finite))}{unit}"]
    last = curve.points[-1][1]
    at = f" at step {curve.last_step}" if curve.last_step is not None else ""
    said.append(f"last {number(last)}{unit if math.isfinite(last) else ''}{at}")
    if lost := len(curve.points) - len(finite):
        said.append(f"{lost} of {len(curve.points)} not finite")
    return "  ".join(said)


def number(value: float) -> str:
    if not math.isfinite(value):
        return "not finite"
    return f"{value:.0f}" if abs(value) >= 1000 and value == int(value) and abs(value) < 1e7 else f"{value:.4g}"


def _limits(curve: Curve) -> tuple[float, float] | None:
    """The values at the bottom and at the top; None: there is nothing to draw."""
    finite = [value for _, value in curve.points if math.isfinite(value)]
    if not finite:
        return None
    low, high = min(finite), max(finite)
    return (min(0.0, low), max(100.0, high)) if curve.unit == "%" else (low, high)


def _labels(limits: tuple[float, float] | None) -> list[str]:
    """From the top down."""
    if limits is None:
        return []
    low, high = map(number, limits)
    middle = [""] * (ROWS // 2)
    return [*middle, low, *middle] if limits[0] == limits[1] else [high, *[""] * (ROWS - 2), low]


def _drawn(curve: Curve, labels: Sequence[str], margin: int, width: int, times: tuple[float, float]) -> Iterator[str]:
    if (limits := _limits(curve)) is None:
        return
    across = max(_LEAST_WIDTH, width - margin - 1)
    cells = [[0] * across for _ in range(ROWS)]
    finite = [(at, value) for at, value in curve.points if math.isfinite(value)]
    for x, y in _dots(finite, across * _ACROSS, ROWS * _DOWN, times, limits):
        cells[y // _DOWN][x // _ACROSS] |= _DOTS[x % _ACROSS][y % _DOWN]
    for label, found in zip(labels, cells, strict=True):
        drawn = "".join(chr(0x2800 + dots) if dots else " " for dots in found)
        yield f"{label:>{margin}} {drawn}".rstrip()


def _dots(
    points: Iterable[tuple[float, float]],
    width: int,
    height: int,
    times: tuple[float, float],
    limits: tuple[float, float],
) -> Iterator[tuple[int, int]]:
    """From the top left. Each column is filled from the least to the greatest value of its time, and joined to the
    column before: no peak is lost."""
    columns: dict[int, tuple[int, int]] = {}
    last: tuple[int, int] | None = None
    for at, value in points:
        here = _place(at, *times, width), height - 1 - _place(value, *limits, height)
        for column, row in _between(last, here):
            least, most = columns.get(column, (row, row))
            columns[column] = min(least, row), max(most, row)
        last = here
    for column, (least, most) in columns.items():
        yield from ((column, row) for row in range(least, most + 1))


def _between(last: tuple[int, int] | None, here: tuple[int, int]) -> Iterator[tuple[int, int]]:
    if last is None or here[0] <= last[0]:
        yield here
        return
    for column in range(last[0] + 1, here[0] + 1):
        share = (column - last[0]) / (here[0] - last[0])
        yield column, round(last[1] + share * (here[1] - last[1]))
    yield last[0] + 1, round(last[1] + (here[1] - last[1]) / (here[0] - last[0]))


def _place(value: float, low: float, high: float, count: int) -> int:
    """0 to count - 1; in the middle if there is only one value."""
    if high / 2 - low / 2 <= 0:
        return count // 2
    return min(count - 1, int((value / 2 - low / 2) / (high / 2 - low / 2) * (count - 1) + 0.5))


def _axis(begin: float, end: float, margin: int, width: int) -> str:
    form = "%H:%M:%S" if end - begin < 86_400 else "%Y-%m-%d %H:%M"
    first, last = (time.strftime(form, time.gmtime(each)) for each in (begin, end))
    return " " * (margin + 1) + first + f"{last} UTC".rjust(max(_LEAST_WIDTH, width - margin - 1) - len(first))
