"""The summary of a metric's values in result.json, of a stream of any length in bounded memory."""

from __future__ import annotations

import math
from array import array
from collections import deque

KEPT = 1000
"""How many values are kept: the last ones. First, least and greatest are of all values."""
MEDIAN_OF = 2**13
"""If there are more values, the median is that of every second one, then of every fourth: 64 KiB. The process is in the
job's control group, whose memory is the training's, and a job has up to a thousand metrics."""


class Summary:
    def __init__(self) -> None:
        self._values: deque[float] = deque(maxlen=KEPT)
        self._count = self._finite = 0
        self._min, self._max = math.inf, -math.inf
        self._sample, self._stride = array("d"), 1

    def add(self, value: float) -> None:
        self._count += 1
        self._values.append(value)
        if not math.isfinite(value):
            return
        if self._finite % self._stride == 0:
            if len(self._sample) == MEDIAN_OF:
                self._sample, self._stride = self._sample[::2], 2 * self._stride
            self._sample.append(value)
        self._finite += 1
        self._min, self._max = min(self._min, value), max(self._max, value)

    def fields(self) -> dict[str, object]:
        """A NaN is counted. As a last value it becomes null, because JSON has no NaN."""
        return {
            "count": self._count,
            "not_finite": self._count - self._finite,
            "last": json_number(self._values[-1]) if self._values else None,
            "min": json_number(self._min),
            "max": json_number(self._max),
            "median": _median(self._sample),
            "values": [json_number(value) for value in self._values],
        }


def _median(values: array[float]) -> float | None:
    """`statistics` takes longer to import than all else of this program."""
    found = sorted(values)
    middle = len(found) // 2
    if not found:
        return None
    return found[middle] if len(found) % 2 else (found[middle - 1] + found[middle]) / 2


def json_number(value: float) -> float | None:
    return value if math.isfinite(value) else None
