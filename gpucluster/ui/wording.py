"""Values as the page's words: times, durations, sizes, money, and text that users wrote."""

from __future__ import annotations

import re
import time
from contextlib import suppress

_COLOUR = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
"""Escape sequences of ECMA-48 5.4 and OSC: colours, titles, links."""
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
LONGEST_LINE = 2000
LONGEST_CELL = 60


def when(at_s: float | None) -> str:
    """By this machine's clock and time zone: the time of today, the date of another day."""
    if at_s is None:
        return "–"
    moment, today = time.localtime(at_s), time.localtime()
    is_today = (moment.tm_year, moment.tm_yday) == (today.tm_year, today.tm_yday)
    return time.strftime("%H:%M:%S" if is_today else "%Y-%m-%d %H:%M", moment)


def duration(seconds: float | None) -> str:
    """Two units at most: 42 s, 3 min 20 s, 2 h 05 min, 3 d 4 h."""
    if seconds is None:
        return "–"
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{seconds:.1f} s" if 0 < seconds < 10 else f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    if whole < 86400:
        return f"{whole // 3600} h {whole % 3600 // 60:02} min"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"


def usd(value: float | None) -> str:
    if value is None:
        return "–"
    return f"${value:,.2f}" if value < 10_000 else f"${value:,.0f}"


def number(value: object) -> str:
    """A metric's value, which may be any JSON."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        with suppress(OverflowError):  # a whole number may be larger than any float
            return f"{value:.5g}"
    text = str(value)
    return text if len(text) <= LONGEST_CELL else f"{text[:LONGEST_CELL]}…"


def gib(size: float | None) -> str:
    if size is None:
        return "–"
    count = size / 2**30
    return f"{count:,.0f} GiB" if count >= 10 else f"{count:.1f} GiB"


def line(text: str) -> str:
    """A line of a log: without colours; of a progress bar, what it showed last; not longer than a page can show."""
    shown = text.rstrip("\r\n").rpartition("\r")[2][: 2 * LONGEST_LINE]
    plain = _CONTROL.sub("�", _COLOUR.sub("", shown))
    return plain if len(plain) <= LONGEST_LINE else f"{plain[:LONGEST_LINE]}… (a line of {len(text):,} characters)"


def count(value: int, noun: str) -> str:
    return f"{value:,} {noun}{'s' * (value != 1)}"
