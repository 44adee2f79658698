"""Places in pictures: lines, axes and bars as numbers, of which templates make SVG.

Styles are classes of page.css, since the page's policy allows no style in its text.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Place = tuple[float, float]

WIDTH, HEIGHT = 460.0, 260.0
LEFT, RIGHT, TOP, BOTTOM = 46.0, 12.0, 12.0, 34.0
COLOURS = 8
"""Classes c0 to c7, of things that have no order, and v0 to v7, of values."""
WIDE = 20
"""How many times the smallest number the largest one is, for a logarithmic axis."""


@dataclass(frozen=True)
class Tick:
    at: float
    text: str


@dataclass(frozen=True)
class Line:
    name: str
    colour: int
    points: tuple[tuple[Place, str], ...]
    """Where, and in words."""

    @property
    def path(self) -> str:
        return path([place for place, _ in self.points])


@dataclass(frozen=True)
class Plot:
    title: str
    x_name: str
    unit: str
    lines: tuple[Line, ...]
    ideal: str
    """A path."""
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    width: float = WIDTH
    height: float = HEIGHT


def path(places: Sequence[Place]) -> str:
    return "M" + "L".join(f"{x:.1f},{y:.1f}" for x, y in places) if places else ""


def plot(title: str, x_name: str, unit: str, lines: Mapping[str, Sequence[Place]], ideal: Sequence[Place]) -> Plot:
    """x is logarithmic, since sizes double; y begins at 0."""
    xs = sorted({x for each in (*lines.values(), ideal) for x, _ in each})
    top = max((y for each in (*lines.values(), ideal) for _, y in each), default=1.0) * 1.08 or 1.0
    low, high = math.log2(max(xs[0], 1)), math.log2(max(xs[-1], 1))

    def place(x: float, y: float) -> Place:
        across = (math.log2(max(x, 1)) - low) / (high - low) if high > low else 0.5
        return LEFT + across * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - y / top * (HEIGHT - TOP - BOTTOM)

    drawn = [
        Line(name, at % COLOURS, tuple((place(x, y), f"{name}, {x:g} {x_name}: {y:.3g} {unit}") for x, y in values))
        for at, (name, values) in enumerate(lines.items())
    ]
    return Plot(
        title,
        x_name,
        unit,
        tuple(drawn),
        path([place(x, y) for x, y in ideal]),
        tuple(Tick(place(x, 0)[0], f"{x:g}") for x in _some(xs)),
        tuple(Tick(place(xs[0], y)[1], f"{y:g}") for y in steps(top)),
    )


def _some(xs: Sequence[float], most: int = 8) -> Sequence[float]:
    return xs[:: -(-len(xs) // most)]


def steps(top: float, about: int = 5) -> list[float]:
    """Round numbers from 0 on, not beyond `top`."""
    rough = top / about
    power = 10 ** math.floor(math.log10(rough))
    step = next((each * power for each in (1, 2, 2.5, 5) if each * power >= rough), 10 * power)
    return [round(number * step, 10) for number in range(int(top / step) + 1)]


@dataclass(frozen=True)
class Axis:
    name: str
    at: float
    ticks: tuple[Tick, ...]


@dataclass(frozen=True)
class Parallel:
    """Parallel coordinates: an axis for each parameter and metric, a line for each element."""

    axes: tuple[Axis, ...]
    lines: tuple[Line, ...]
    colour_name: str
    """The column that gives the colours: the last one."""
    width: float
    height: float = HEIGHT


Scale = tuple[Mapping[str, float], tuple[Tick, ...]]


def parallel(columns: Mapping[str, Sequence[str]], labels: Sequence[str]) -> Parallel:
    """`columns`: name -> the value of each line, as text; empty if there is none. A line ends where a value lacks.

    A column of numbers has its numbers from below to above, on a logarithmic axis if they differ widely; any other one
    its values in their order."""
    gap = 150.0
    scales = {name: _scale(values) for name, values in columns.items()}
    axes = tuple(Axis(name, 60 + at * gap, scales[name][1]) for at, name in enumerate(columns))
    last = list(columns)[-1]
    lines = []
    for row, label in enumerate(labels):
        given = [(axis.at, scales[axis.name][0].get(columns[axis.name][row])) for axis in axes]
        places = [(x, y) for x, y in given if y is not None]
        lines.append(
            Line(label, _colour(scales[last][0].get(columns[last][row])), tuple((each, label) for each in places))
        )
    return Parallel(axes, tuple(lines), last, 120 + gap * (len(columns) - 1))


def _scale(values: Sequence[str]) -> Scale:
    """Text -> its y, and the ticks."""
    texts = list(dict.fromkeys(value for value in values if value != ""))
    numbers = {text: number for text in texts if (number := _finite(text)) is not None}
    if len(numbers) < len(texts):  # names: evenly spaced
        order = {text: float(at) for at, text in enumerate(sorted(texts))}
        return _placed(order, list(order.items()))
    ends = sorted(set(numbers.values()))
    shown = [(f"{each:.4g}", each) for each in (ends if len(ends) <= 6 else (ends[0], ends[-1]))]
    return _placed(numbers, shown)


def _placed(found: Mapping[str, float], shown: Sequence[tuple[str, float]]) -> Scale:
    ends = min(found.values(), default=0.0), max(found.values(), default=0.0)
    bent = math.log if ends[0] > 0 and ends[1] / ends[0] >= WIDE else float
    low, high = map(bent, ends)

    def y(value: float) -> float:
        up = (bent(value) - low) / (high - low) if high > low else 0.5
        return HEIGHT - BOTTOM - up * (HEIGHT - 2 * BOTTOM)

    return {text: y(value) for text, value in found.items()}, tuple(Tick(y(value), text) for text, value in shown)


def _finite(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _colour(y: float | None) -> int:
    """0 at the bottom of the axis, COLOURS - 1 at its top; the middle without a value."""
    if y is None:
        return COLOURS // 2
    up = (HEIGHT - BOTTOM - y) / (HEIGHT - 2 * BOTTOM)
    return min(COLOURS - 1, max(0, int(up * COLOURS)))


@dataclass(frozen=True)
class Bar:
    """A part of a timeline, in percent of its width."""

    left: float
    width: float


def bars(spans: Sequence[tuple[float, float]]) -> list[Bar]:
    """Start and end of each, in seconds. A short one stays visible."""
    first = min((start for start, _ in spans), default=0.0)
    whole = max((end for _, end in spans), default=first) - first or 1.0
    found = [Bar(100 * (start - first) / whole, max(0.4, 100 * (end - start) / whole)) for start, end in spans]
    return [Bar(min(bar.left, 100 - bar.width), bar.width) for bar in found]
