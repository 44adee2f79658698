"""Bars of one line of text, from Unicode's eight blocks (U+2581 to U+2588)."""

from __future__ import annotations

from collections.abc import Sequence

_BLOCKS = "▁▂▃▄▅▆▇█"


def block(share: float) -> str:
    """0 to 1. Nothing at all is still seen as the lowest block, and so is a value that is no number."""
    return _BLOCKS[int(share * len(_BLOCKS))] if 0 < share < 1 else _BLOCKS[-1 if share >= 1 else 0]


def line(percents: Sequence[float], width: int) -> str:
    """The newest `width` values, on the right."""
    return "".join(block(each / 100) for each in percents[max(0, len(percents) - width) :]).rjust(width)
