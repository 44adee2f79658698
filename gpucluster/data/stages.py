"""The same work in pieces, for jobs of a cluster: one plans, many pack, one finishes. They share the target alone."""

from __future__ import annotations

from collections.abc import Iterator

from gpucluster.data import manifest, plan, run
from gpucluster.data.places import place
from gpucluster.data.run import DataSet, Options, Outcome, Tell
from gpucluster.data.source import SPLITS
from gpucluster.errors import DataError, UsageError

PLAN, FINISH = "plan", "finish"


def stage(options: Options, name: str, tell: Tell) -> list[Outcome]:
    """`plan`, `I/N` (the I-th of N parts, from 0), `finish`, which has outcomes. Raises GpuClusterError."""
    if name == PLAN:
        run.prepare(options, tell)
        return []
    if name == FINISH:
        return _finished(options)
    part, parts = _part(name)
    for each in _unfinished(options.target):
        run.pack(each, range(part, len(each.plan.counts), parts), options.workers, tell)
    return []


def _part(text: str) -> tuple[int, int]:
    part, _, parts = text.partition("/")
    if part.isdigit() and parts.isdigit() and int(part) < int(parts):
        return int(part), int(parts)
    raise UsageError(f"no such stage: {text!r}", f"{PLAN}, PART/PARTS from 0, or {FINISH}")


def _unfinished(target: str) -> Iterator[DataSet]:
    whole = place(target)
    for each in (whole, *(whole.inner(split) for split in SPLITS)):
        if found := plan.stored(each):
            yield DataSet(each, found, False)


def _finished(options: Options) -> list[Outcome]:
    """Of all that the target has; what another run had finished before is in it too."""
    outcomes = [run.finish(each) for each in _unfinished(options.target)]
    if outcomes:
        return outcomes
    whole = place(options.target)
    there = [(each, manifest.load(each)) for each in (whole, *(whole.inner(split) for split in SPLITS))]
    outcomes = [run.outcome(each, found) for each, found in there if found]
    if not outcomes:
        raise DataError(f"{options.target}: has no plan", "the first job, which plans, has failed: its log says why")
    return outcomes
