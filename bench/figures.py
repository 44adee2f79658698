"""Figures, and the values with which they are compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

PEER_FLOOR_MS = 8.0
"""`python -c pass` on the machine, and in the hour, that the torchx figures below come from."""

TORCHX_HELP_MS = 87.0
TORCHX_DRY_RUN_MS = 167.0
"""torchx 0.7.0 on Python 3.11.7: user + system CPU, the lowest median of three passes of five runs, of `torchx --help`
and of `torchx run --dryrun -s slurm dist.ddp`."""


@dataclass(frozen=True)
class Figure:
    """Times are in `unit` throughout. A time measured elsewhere counts in multiples of the floor that it was measured
    with; so does a goal in milliseconds, because a machine that is busy or slow stretches floor and figure alike."""

    name: str
    unit: str
    value: float
    floor: float
    floor_name: str
    goal: float | None = None
    """As multiple of the floor."""
    goal_text: str = ""
    peer: float | None = None
    """As multiple of the floor."""
    peer_name: str = ""

    @property
    def ratio(self) -> float:
        return self.value / self.floor

    @property
    def met(self) -> bool | None:
        return None if self.goal is None else self.ratio <= self.goal

    def row(self) -> tuple[str, ...]:
        peer = f"{self.peer:.1f}x {self.peer_name}" if self.peer else "-"
        return (
            self.name,
            f"{self.value:.1f} {self.unit}",
            f"{self.floor:.1f} {self.unit} {self.floor_name}",
            f"{self.ratio:.2f}x",
            f"{self.goal:.2f}x = {self.goal_text}" if self.goal else "-",
            peer,
            {None: "", True: "met", False: "MISSED"}[self.met],
        )

    def as_json(self) -> Mapping[str, object]:
        return {
            "name": self.name,
            "unit": self.unit,
            "value": round(self.value, 2),
            "floor": round(self.floor, 2),
            "ratio": round(self.ratio, 3),
            "goal_ratio": round(self.goal, 3) if self.goal else None,
            "peer_ratio": round(self.peer, 3) if self.peer else None,
            "met": self.met,
        }


HEADINGS = ("figure", "measured", "floor", "ratio", "goal", "peer", "")


def table(figures: list[Figure]) -> str:
    rows = [HEADINGS, *(figure.row() for figure in figures)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
