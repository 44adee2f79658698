"""Where the seconds of a job went, from its submission to its end, as far as it was recorded: by Slurm's accounting, by
the head node for its instances, and by the job itself in its folder.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from math import isfinite
from typing import Any

from gpucluster.following import lives
from gpucluster.following.lives import Life, Run
from gpucluster.head.remote import Remote

SHORTEST_S = 0.5
"""Shorter spans are left out."""
PHASES = {
    "start": "the job's programs start",
    "preflight": "its nodes are checked",
    "packages": "its own packages are installed",
    "data": "its data and state are made ready",
    "containers": "its containers are made",
    "running": "its command runs",
    "export": "its file system in memory is exported",
    "ending": "its state, metrics and result are saved",
}
"""Name -> what happens, as gpucluster_job/job.py begins them."""


@dataclass(frozen=True)
class Span:
    name: str
    """waiting, queued, booting, prolog, one of PHASES, or epilog."""
    start_s: float
    end_s: float | None
    """None: it has not ended."""
    words: str


def of(remote: Remote, job_id: str) -> list[Span]:
    """In the order of their beginnings; of an array, without the phases of its elements. Raises RemoteError."""
    return spans(lives.of_job(remote, job_id))


def spans(found: lives.Records) -> list[Span]:
    parts: dict[float, list[Run]] = {}
    for run in found.runs:
        parts.setdefault(run.submitted, []).append(run)
    phases = list(_phases(found.own))
    runs = [_whole(parts[submitted]) for submitted in sorted(parts)]
    ends = [*(run.submitted for run in runs), float("inf")][1:]
    by_run = [
        span
        for run, until in zip(runs, ends, strict=True)
        for span in _of_run(run, found.lives, [each for each in phases if run.submitted <= each.start_s < until])
    ]
    return [each for each in by_run or phases if each.end_s is None or each.end_s - each.start_s >= SHORTEST_S]


def _whole(parts: Sequence[Run]) -> Run:
    """The parts of a heterogeneous job, or the elements of an array, as one run."""
    started = [run.started for run in parts if run.started is not None]
    ended = [run.ended for run in parts if run.ended is not None]
    eligible = [run.eligible for run in parts if run.eligible is not None]
    return replace(
        parts[0],
        nodes=tuple(node for run in parts for node in run.nodes),
        eligible=min(eligible, default=None),
        started=min(started, default=None),
        ended=max(ended) if len(ended) == len(parts) else None,
    )


def _of_run(run: Run, instances: Sequence[Life], phases: Sequence[Span]) -> Iterator[Span]:
    """Slurm sets a job's start anew when nodes that were powered off have joined, so boots are before it
    (job_mgr.c: job_config_fini)."""
    until = run.started or run.ended
    eligible = max(run.submitted, run.eligible or run.submitted)
    launched = [
        each for each in instances if each.node in run.nodes and eligible <= each.launched <= (until or each.seen)
    ]
    boots = min((each.launched for each in launched), default=None)
    if eligible > run.submitted:
        yield Span("waiting", run.submitted, eligible, "it waits for its begin time or for another job")
    queued = boots or until
    if queued is None or queued > eligible:
        yield Span("queued", eligible, queued, "it waits for nodes")
    if boots is not None:
        nodes = len({each.node for each in launched})
        yield Span("booting", boots, until, f"{nodes} of its {len(run.nodes)} nodes boot")
    if run.started is not None and phases:
        if phases[0].start_s > run.started:
            yield Span("prolog", run.started, phases[0].start_s, "its nodes are prepared")
        yield from (each if each.end_s else replace(each, end_s=run.ended) for each in phases)
    elif run.started is not None:
        yield Span("running", run.started, run.ended, PHASES["running"])
    last = phases[-1].end_s if phases else None
    if last is not None and (run.ended is None or run.ended > last):
        yield Span("epilog", last, run.ended, "Slurm ends it and cleans its nodes")


def _phases(own: Mapping[str, Any]) -> Iterator[Span]:
    """Users may write to these files: what is not as the job writes it is left out."""
    lines = [
        (float(each["time_s"]), str(each["name"]), each.get("run"))
        for each in own.get("phases", ())
        if isinstance(each.get("time_s"), float) and isfinite(each["time_s"]) and each.get("name") in (*PHASES, "end")
    ]
    lines.sort(key=lambda line: line[0])
    for (begin, name, run), (end, _, next_run) in pairwise(lines):
        if name in PHASES:
            yield Span(name, begin, end if run == next_run else None, PHASES[name])
    if lines and (last := lines[-1])[1] in PHASES:
        yield Span(last[1], last[0], None, PHASES[last[1]])
    if not lines:
        yield from _before_phases(own)


def _before_phases(own: Mapping[str, Any]) -> Iterator[Span]:
    """A job that an earlier version submitted has only its begin and end."""
    result = own.get("result") or {}
    begin = _time(result.get("started_at") or own.get("started"))
    if begin is not None:
        yield Span("running", begin, _time(result.get("ended_at")), PHASES["running"])


def _time(text: object) -> float | None:
    """`2026-11-29T08:20:54Z`."""
    try:
        return datetime.fromisoformat(str(text)).timestamp()
    except ValueError:
        return None
