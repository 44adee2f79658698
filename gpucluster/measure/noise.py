"""Noise: means of a few runs, with the interval that contains the true mean in 19 of 20 cases."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

_T = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
"""Student's t at 97.5 %, for 1 to 30 degrees of freedom: NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2."""


def student_t(degrees: float) -> float:
    """Fractions are rounded down, to the wider interval. Beyond the table it approaches the normal distribution."""
    whole = max(1, int(degrees))
    return _T[whole - 1] if whole <= len(_T) else 1.96 + 2.5 / whole


@dataclass(frozen=True)
class Estimate:
    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        return statistics.fmean(self.values)

    @property
    def stdev(self) -> float | None:
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    @property
    def half_width(self) -> float | None:
        """Half the 95 % interval around the mean; None for a single value, whose noise is unknown."""
        if self.stdev is None:
            return None
        return student_t(len(self.values) - 1) * self.stdev / math.sqrt(len(self.values))


def estimate(values: Sequence[float]) -> Estimate | None:
    return Estimate(tuple(values)) if values else None


def difference_noise(one: Estimate, other: Estimate) -> float | None:
    """Half the 95 % interval around the difference of two means (Welch). None if one is a single value."""
    if one.stdev is None or other.stdev is None:
        return None
    first, second = one.stdev**2 / len(one.values), other.stdev**2 / len(other.values)
    if first + second == 0:
        return 0.0
    weights = first**2 / (len(one.values) - 1) + second**2 / (len(other.values) - 1)
    return student_t((first + second) ** 2 / weights) * math.sqrt(first + second)


def ratio_half_width(above: Estimate, below: Estimate) -> float | None:
    """Half the interval of the ratio of the means: relative errors are added as independent ones."""
    if above.half_width is None or below.half_width is None or not above.mean or not below.mean:
        return None
    ratio = above.mean / below.mean
    return abs(ratio) * math.hypot(above.half_width / above.mean, below.half_width / below.mean)
