"""The values that a job's program prints or logs, while it runs and afterwards, from `metrics.jsonl` in its folder."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gpucluster.errors import RemoteError
from gpucluster.following import jobs, lives, metric_lines, timeline, usage
from gpucluster.following.usage import Series
from gpucluster.head import arrays, hostlist
from gpucluster.head.remote import Remote

MOST_POINTS = 1000
"""How many of one metric travel. A longer curve is thinned on the head node, and keeps its peaks."""


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


def samples(remote: Remote, job_id: str, names: Sequence[str] = ()) -> list[Series]:
    """How busy the job's nodes and its own GPUs were while it ran; `names` of usage.UNITS, by default all. Empty for a
    job that has not started. Raises usage.Unavailable."""
    where = _nodes_and_time(remote, job_id)
    return usage.of_job(remote, job_id, *where, names) if where else []


def _nodes_and_time(remote: Remote, job_id: str) -> tuple[list[str], float, float] | None:
    """From Slurm's accounting; on a cluster without it, from Slurm and from the job's folder."""
    found = lives.of_job(remote, job_id)
    runs = [run for run in found.runs if run.started is not None and run.nodes]
    if runs:
        nodes = dict.fromkeys(node for run in runs for node in run.nodes)
        ends = [run.ended or found.now for run in runs]
        return list(nodes), min(run.started or found.now for run in runs), max(ends)
    if found.runs:
        return None  # it waits for its first run
    job, result = jobs.find(remote, job_id), jobs.result(remote, job_id) or {}
    names = hostlist.names(job.node_list) if job and job.phase == "running" else result.get("node_list") or ()
    spans = timeline.spans(found)
    if not (nodes := dict.fromkeys(map(str, names))) or not spans:
        return None
    return list(nodes), spans[0].start_s, spans[-1].end_s or found.now
