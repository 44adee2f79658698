"""The same work in parts, for jobs of a cluster: one plans, many pack, one finishes. They share only the target."""

from __future__ import annotations

from collections.abc import Iterator

from gpucluster.data import excluded, manifest, plan, run
from gpucluster.data.locations import Location, location
from gpucluster.data.run import DataSet, Options, Outcome, Tell
from gpucluster.data.source import SPLITS
from gpucluster.errors import UsageError

PLAN, FINISH = "plan", "finish"


def stage(options: Options, name: str, tell: Tell) -> list[Outcome]:
    """`plan`, `I/N` (the I-th of N parts, from 0), `finish`, which has outcomes. Raises GpuClusterError."""
    if name == PLAN:
        run.prepare(options, tell)
        return []
    if name == FINISH:
        return _finished(options)
    part, parts = _part(name)
    run.pack_all(list(_unfinished(options.target)), options, tell, part, parts)
    return []


def _part(text: str) -> tuple[int, int]:
    part, _, parts = text.partition("/")
    if part.isdigit() and parts.isdigit() and int(part) < int(parts):
        return int(part), int(parts)
    raise UsageError(f"there is no stage {text!r}", f"{PLAN}, PART/PARTS from 0, or {FINISH}")


def _locations(target: str) -> list[Location]:
    """Possible locations of data sets."""
    whole = location(target)
    return [whole, *(whole.inner(split) for split in SPLITS)]


def _unfinished(target: str) -> Iterator[DataSet]:
    for each in _locations(target):
        if found := plan.stored(each):
            yield DataSet(each, found, False)


def _finished(options: Options) -> list[Outcome]:
    """The results of all data sets at the target, also of those that an earlier run finished."""
    target = location(options.target)
    bad = excluded.merge(target)
    unfinished = list(_unfinished(options.target))
    samples = sum(each.plan.samples for each in unfinished)
    for each in unfinished:
        run.finish(each, run.without(options, bad, samples) if bad else run.AGAIN)
    run.tidy(options.target)
    there = [(each, manifest.load(each)) for each in _locations(options.target)]
    return [run.outcome(each, found) for each, found in there if found]
