"""The values that a job's program prints or logs, while it runs and afterwards, from `metrics.jsonl` in its folder."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gpucluster.errors import RemoteError
from gpucluster.following import jobs, metric_lines
from gpucluster.head import arrays
from gpucluster.head.remote import Remote

MOST_POINTS = 1000
"""Of one metric. A longer curve is thinned on the head node, and keeps its peaks."""


@dataclass(frozen=True)
class Point:
    time_s: float
    """Unix seconds, by the clock of the rank's node."""
    step: int | None
    value: float
    """May be NaN, which also stands for an infinite value."""


def points(remote: Remote, job_id: str, names: Sequence[str] = ()) -> dict[str, list[Point]]:
    """Name -> its values in the order in which they were written; of all metrics, or of those of these names. Empty for
    a job without metrics, or one that has not started."""
    program = Path(metric_lines.__file__).read_text(encoding="utf-8")
    files = _files(remote, job_id)
    argv = ["/usr/bin/python3", "-IS", "-c", program, str(MOST_POINTS), *files, "--", *names]
    done = remote.run(argv).check(f"cannot read the metrics of job {job_id}")
    try:
        found = json.loads(done.stdout)
    except ValueError as error:
        raise RemoteError(f"the metrics of job {job_id} cannot be read: {error}") from None
    return {name: [_point(*each) for each in values] for name, values in found.items()}


def _files(remote: Remote, job_id: str) -> list[str]:
    """If an element of an array ran again since, the metrics of this run have another name, as its log has."""
    folder, (number, index) = jobs.folder_of(remote, job_id), arrays.array_of(job_id)
    return [*([f"{folder}/metrics-{number}.jsonl"] if index is not None else []), f"{folder}/metrics.jsonl"]


def _point(time_s: float, step: int | None, value: float | None) -> Point:
    return Point(time_s, step, math.nan if value is None else value)
