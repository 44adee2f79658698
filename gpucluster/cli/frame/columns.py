"""Rows of text in columns."""

from __future__ import annotations

from collections.abc import Sequence

from gpucluster.cli.frame import screen


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """One line for each row, whatever the cells contain; the last column is not padded."""
    if not rows:
        return []
    rows = [[screen.one_line(cell) for cell in row] for row in rows]
    widths = [max(len(row[index]) for row in rows) for index in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
