"""Bars of one line of text, from Unicode's eight blocks (U+2581 to U+2588)."""

from __future__ import annotations

from collections.abc import Sequence

_BLOCKS = "▁▂▃▄▅▆▇█"


def block(share: float) -> str:
    """0 to 1. Nothing at all is still seen as the lowest block."""
    return _BLOCKS[min(len(_BLOCKS) - 1, max(0, int(share * len(_BLOCKS))))]


def line(percents: Sequence[float], width: int) -> str:
    """The newest `width` values, on the right."""
    return "".join(block(each / 100) for each in percents[max(0, len(percents) - width) :]).rjust(width)
