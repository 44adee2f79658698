"""At the end of a job, prints the values of the job's metrics in its log as JSON: `metrics EXPRESSIONS.json LOG BYTES`.

A metric has a value on each line that its expression matches. Only the lines of the lowest rank that has any count,
because ranks mostly print the same. Bytes before BYTES belong to an earlier run of the job.
"""

from __future__ import annotations

import json
import math
import re
import statistics
from collections.abc import Iterable, Iterator

LABEL = re.compile(r"\[(\d+|chief) [^\]]+\] (.*)", re.DOTALL)
CHIEF = -1
"""The label that sorts before all ranks: if this process prints a metric, its lines count."""
KEPT = 1000
"""How many values of a metric are kept: the last ones. First, least and greatest are of all values."""


_STYLE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))")
"""Colours and links of terminals: control sequences and operating system commands of ECMA-48."""
_WITH_THOUSANDS = re.compile(r"[+-]?[1-9][0-9]{0,2}(?:,[0-9]{3})+(?![0-9,])")


def main(words: list[str]) -> int:
    _, expressions, log, skipped_bytes = words
    with open(expressions, encoding="utf-8") as file:
        patterns = {name: re.compile(text) for name, text in json.load(file).items()}
    with open(log, "rb") as lines:
        lines.seek(int(skipped_bytes))
        values = read(patterns, (line.decode(errors="replace").rstrip("\n") for line in lines))
    print(json.dumps({name: summary(found) for name, found in values.items()}))
    return 0


def read(patterns: dict[str, re.Pattern[str]], lines: Iterable[str]) -> dict[str, list[float]]:
    by_rank: dict[str, dict[int, list[float]]] = {name: {} for name in patterns}
    for rank, line in labelled(lines):
        for name, pattern in patterns.items():
            value = number(pattern, line)
            if value is not None:
                by_rank[name].setdefault(rank, []).append(value)
    return {name: ranks[min(ranks)] if ranks else [] for name, ranks in by_rank.items()}


def labelled(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    found = (match for match in map(LABEL.fullmatch, map(_unstyled, lines)) if match)
    return ((CHIEF if match[1] == "chief" else int(match[1]), match[2]) for match in found)


def _unstyled(line: str) -> str:
    return _STYLE.sub("", line) if "\x1b" in line else line


def number(pattern: re.Pattern[str], line: str) -> float | None:
    """Reads `1,234.5` as a number. Text that is not a number is skipped, such as `97,3`: a comma separates thousands or
    nothing."""
    match = pattern.search(line)
    text = match[1].rstrip(",") if match and match[1] else ""
    if _WITH_THOUSANDS.match(text):
        text = text.replace(",", "")
    try:
        return None if "_" in text else float(text)  # float() reads 1_2 as 12
    except ValueError:
        return None


def summary(values: list[float]) -> dict[str, object]:
    """A NaN is counted. As a last value it becomes null, because JSON has no NaN."""
    finite = [value for value in values if math.isfinite(value)]
    kept = values[-KEPT:]
    return {
        "count": len(values),
        "not_finite": len(values) - len(finite),
        "last": json_number(values[-1]) if values else None,
        "min": min(finite, default=None),
        "max": max(finite, default=None),
        "median": statistics.median(finite) if finite else None,
        "values": [json_number(value) for value in kept],
    }


def json_number(value: float) -> float | None:
    return value if math.isfinite(value) else None
