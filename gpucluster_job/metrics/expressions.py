"""What an expression of `metrics` finds in a line of the job's log."""

from __future__ import annotations

import math
import re
from typing import Iterator, Pattern

LABEL = re.compile(r"\[(\d+|chief) [^\]]+\] (.*)", re.DOTALL)
CHIEF = -1
"""The rank that comes before all others: if this process prints a metric, its lines count."""
STEP = "step"
"""A group of this name in an expression is the step, and so is the value of a metric of this name."""
_STYLE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))")
"""Colours and links of terminals: control sequences and operating system commands of ECMA-48."""
_WITH_THOUSANDS = re.compile(r"[+-]?[1-9][0-9]{0,2}(?:,[0-9]{3})+(?![0-9,])")
_DECIMAL_COMMA = re.compile(r"[+-]?[0-9]+,[0-9]+")
WINDOW = 2**16
OVERLAP = 2**10
"""A longer line is searched in windows. Python's `re` looks for signals only between its steps, and one step of `a*b`
on a line of a megabyte takes minutes: on a window it takes a second."""
MOST_STEP = 2**53


_EXPONENT = re.compile(r"[eE][+-]?[0-9]+(?![\w.])")


class NoNumber(Exception):
    """The text that the expression captured."""


class PartOfNumber(NoNumber):
    """The number of which the expression captured all but the exponent: 4.5 of 4.5e-05."""


class Expression:
    def __init__(self, text: str) -> None:
        self.pattern: Pattern[str] = re.compile(text)
        self._step = self.pattern.groupindex.get(STEP)
        others = [number for number in range(1, self.pattern.groups + 1) if number != self._step]
        self._value = others[0]

    def find(self, line: str) -> tuple[float, int | None] | None:
        """Value and step. Raises NoNumber."""
        match = self._search(line)
        if match is None or not match[self._value]:
            return None
        step = number(match[self._step] or "") if self._step else None
        value = number(match[self._value])
        if value is None:
            raise NoNumber(match[self._value])
        if (rest := _EXPONENT.match(line, match.end(self._value))) and "e" not in match[self._value].lower():
            raise PartOfNumber(match[self._value] + rest[0])
        return value, whole(step)

    def _search(self, line: str) -> re.Match[str] | None:
        if len(line) <= WINDOW:
            return self.pattern.search(line)
        for start in range(0, len(line), WINDOW - OVERLAP):
            end = min(start + WINDOW, len(line))
            match = self.pattern.search(line, start, end)
            if match and (match.end() < end or end == len(line)):  # else the number may continue
                return match
        return None


def labelled(lines: Iterator[str]) -> Iterator[tuple[int, str]]:
    """Rank and text of each line of a rank."""
    found = (match for match in map(LABEL.fullmatch, map(_unstyled, lines)) if match)
    return ((CHIEF if match[1] == "chief" else int(match[1][:9]), match[2]) for match in found)


def _unstyled(line: str) -> str:
    return _STYLE.sub("", line) if "\x1b" in line else line


def number(text: str) -> float | None:
    """Reads `1,234.5` as a number. `97,3` is none: a comma separates thousands or nothing."""
    text = text.rstrip(",")
    if _WITH_THOUSANDS.match(text):
        text = text.replace(",", "")
    try:
        return None if "_" in text else float(text)  # float() reads 1_2 as 12
    except ValueError:
        return None


def has_decimal_comma(text: str) -> bool:
    return bool(_DECIMAL_COMMA.match(text))


def whole(value: float | None) -> int | None:
    """A step; None if it is no whole number."""
    if value is None or not math.isfinite(value) or abs(value) > MOST_STEP or value != int(value):
        return None
    return int(value)
