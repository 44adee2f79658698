"""Where the values of metrics go: `metrics.jsonl` in the job's folder, which any program can read; `last.json`, from
which the node's sampler takes the newest ones; and the summary for result.json.

A line: `{"time_s": 1764400000.1, "run": 0, "rank": 0, "step": 12, "values": {"loss": 0.5}}`, with `"logged": true` if
the program logged it. `run` counts how often Slurm has requeued the job. A value that is not finite is null.
"""

from __future__ import annotations

import json
import math
import os
import re
from contextlib import suppress
from itertools import islice
from pathlib import Path

from gpucluster_job.log import say
from gpucluster_job.metrics.summary import Summary, json_number

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.:/-]{0,63}")
"""As job.yaml allows (gpucluster/job/spec.py): Prometheus, tables and pages show them."""
MOST_NAMES = 1000
ALL_OF = 10_000
"""So many values of a metric are all written; then of as many lines again every second one, every fourth, and so on. A
job that prints for weeks does not fill its file system with its metrics."""
LAST = "/run/gpucluster/metrics/{}/last.json"
"""The node makes the folder before the job starts (bootstrap/programs/bin/job-samples)."""
MOST_LAST = 100
"""Further metrics are not in last.json: each is a series of its own (bootstrap/gpucluster_node/watch/metrics.py)."""


class Series:
    def __init__(self, source: tuple[bool, int]) -> None:
        self.source, self.summary = source, Summary()
        self._seen = self._written = 0
        self._stride = 1

    def add(self, value: float) -> bool:
        """Whether the value is written."""
        self.summary.add(value)
        self._seen += 1
        if (self._seen - 1) % self._stride:
            return False
        self._written += 1
        if self._written == ALL_OF:
            self._written, self._stride = 0, 2 * self._stride
        return True


class Store:
    """If ranks give a metric, the lowest rank's values count, because ranks mostly give the same. Values that the
    program logs count before those that it prints."""

    def __init__(self, folder: Path, job_id: str, run: int) -> None:
        self._path, self._last, self._run = folder / "metrics.jsonl", LAST.format(job_id), run
        self._series: dict[str, Series] = {}
        self._newest: dict[str, float] = {}
        self._lines: list[str] = []
        self._refused: set[str] = set()
        self._clean = False
        """Whether the file ends with a whole line."""

    def add(self, values: dict[str, float], *, time_s: float, step: int | None, rank: int, logged: bool) -> None:
        written: dict[str, float | None] = {}
        for name, value in values.items():
            series = self._of(name, (not logged, rank))
            if series is None:
                continue
            self._newest[name] = value
            if series.add(value):
                written[name] = json_number(value)
        if written:
            line = {"time_s": round(time_s, 3), "run": self._run, "rank": rank, "step": step, "values": written}
            self._lines.append(json.dumps({**line, "logged": True} if logged else line) + "\n")

    def _of(self, name: str, source: tuple[bool, int]) -> Series | None:
        known = self._series.get(name)
        if known is None and not self._accepts(name):
            return None
        if known is None or source < known.source:
            known = self._series[name] = Series(source)
        return known if source == known.source else None

    def _accepts(self, name: str) -> bool:
        if not NAME.fullmatch(name):
            self._refuse("name", f"{name[:80]!r} is no name of a metric: up to 64 letters, digits and _ . : / -")
            return False
        if len(self._series) >= MOST_NAMES:
            self._refuse("count", f"{name} is left out: a job has at most {MOST_NAMES} metrics")
            return False
        return True

    def _refuse(self, kind: str, why: str) -> None:
        if kind not in self._refused:
            self._refused.add(kind)
            say(f"warning: metrics: {why}")

    def forget(self, name: str) -> None:
        """The metric is lost, and result.json must not have a part of it."""
        self._series.pop(name, None)
        self._newest.pop(name, None)

    def write(self) -> None:
        """A full disk costs these lines, and not the job."""
        if not self._lines:
            return
        data, self._lines = "".join(self._lines).encode(), []
        with suppress(OSError), open(self._path, "ab", buffering=0) as file:  # closing it sends it to the file server
            if not self._clean and file.tell():
                data = b"\n" + data  # an earlier run was killed while it wrote
            self._clean = False
            self._clean = file.write(data) == len(data)
        self._write_last()

    def _write_last(self) -> None:
        newest = islice(self._newest.items(), MOST_LAST)
        finite = {name: value for name, value in newest if math.isfinite(value)}
        with suppress(OSError):
            with open(f"{self._last}.new", "w", encoding="utf-8") as file:
                file.write(json.dumps(finite) + "\n")
            os.replace(f"{self._last}.new", self._last)

    def summary(self) -> dict[str, dict[str, object]]:
        return {name: series.summary.fields() for name, series in self._series.items()}

    def counts(self, name: str, rank: int) -> bool:
        """Whether a value that this rank prints would."""
        return name not in self._series or (True, rank) <= self._series[name].source

    def has_logged(self, name: str) -> bool:
        return name in self._series and not self._series[name].source[0]
