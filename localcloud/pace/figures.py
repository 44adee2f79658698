"""The table of figures: `aws.toml` beside this file."""

from __future__ import annotations

import tomllib
from collections.abc import Collection
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, TypeVar

TABLES = ("aws",)
_HERE = Path(__file__).parent
Seconds = tuple[float, float]  # least, most


@dataclass(frozen=True, kw_only=True)
class Sourced:
    source: str
    assumed: bool = False  # no measurement was found


@dataclass(frozen=True, kw_only=True)
class Latency(Sourced):
    call: str
    seconds: Seconds
    refused_seconds: Seconds | None = None


@dataclass(frozen=True, kw_only=True)
class Bucket(Sourced):
    call: str
    size: int
    per_s: float
    counts: str = "requests"  # or instances
    unfiltered: bool = False  # only for calls without filter, page and ids
    shared: bool = False  # one for all actions that match


@dataclass(frozen=True, kw_only=True)
class ByType(Sourced):
    types: str
    seconds: Seconds


@dataclass(frozen=True, kw_only=True)
class Lag(Sourced):
    of: str
    seconds: Seconds


Row = TypeVar("Row", bound=Sourced)


@dataclass(frozen=True)
class Figures:
    latency: tuple[Latency, ...]
    bucket: tuple[Bucket, ...]
    pending: tuple[ByType, ...]
    shutting_down: tuple[ByType, ...]
    lag: tuple[Lag, ...]

    def latency_of(self, call: str) -> Latency:
        return next(row for row in self.latency if fnmatchcase(call, row.call))

    def buckets_of(self, call: str, *, unfiltered: bool) -> list[Bucket]:
        """The first match of those that count requests, and of those that count instances."""
        fitting = [row for row in self.bucket if fnmatchcase(call, row.call) and (unfiltered or not row.unfiltered)]
        first = {row.counts: row for row in reversed(fitting)}
        return list(first.values())

    def lag_of(self, what: str) -> Seconds:
        return next((row.seconds for row in self.lag if row.of == what), (0.0, 0.0))

    def without_lags(self, names: Collection[str]) -> Figures:
        known = {row.of for row in self.lag}
        if unknown := set(names) - known:
            raise ValueError(f"unknown lag {sorted(unknown)[0]!r}; allowed: {', '.join(sorted(known))}")
        return replace(self, lag=tuple(row for row in self.lag if row.of not in names))


def of_type(rows: tuple[ByType, ...], instance_type: str) -> Seconds:
    return next(row.seconds for row in rows if fnmatchcase(instance_type, row.types))


def load(name: str) -> Figures:
    data = tomllib.loads((_HERE / f"{name}.toml").read_text())
    return Figures(
        latency=_rows(Latency, data["latency"]),
        bucket=_rows(Bucket, [{"source": data["bucket_source"], **row} for row in data["bucket"]]),
        pending=_rows(ByType, data["pending"]),
        shutting_down=_rows(ByType, data["shutting_down"]),
        lag=_rows(Lag, data["lag"]),
    )


def _rows(kind: type[Row], rows: list[dict[str, Any]]) -> tuple[Row, ...]:
    fixed: list[dict[str, Any]] = [{k: tuple(v) if isinstance(v, list) else v for k, v in row.items()} for row in rows]
    return tuple(kind(**row) for row in fixed)
