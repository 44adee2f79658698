"""Warnings about conclusions that a benchmark's result does not support. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, pairwise

from gpucluster.measure.noise import Estimate, difference_noise
from gpucluster.measure.report import Report, Row
from gpucluster.measure.runs import THROUGHPUT

ENOUGH = 3
"""The number of runs of a setting from which its noise can be estimated."""


def doubts(found: Report) -> list[str]:
    return [
        *_failures(found),
        *_unread(found),
        *_machines(found),
        *_repeats(found),
        *_speed(found),
        *_sizes(found),
        *_differences(found),
        *_outcomes(found),
    ]


def _failures(found: Report) -> Iterator[str]:
    for row in found.rows:
        failed = [run for run in row.runs if run.failed]
        if failed:
            why = failed[0].ending.sentence(failed[0].job_id)
            yield f"{row.setting}: {len(failed)} of {len(row.runs)} runs failed and are ignored; {why}"


def _unread(found: Report) -> Iterator[str]:
    for row in found.rows:
        finals = [name for name, value in row.finals.items() if value is None]
        for name in [*([THROUGHPUT] if row.throughput is None else []), *finals]:
            if row.sound:
                yield f"{row.setting}: no line of the log matches {name}"


def _machines(found: Report) -> Iterator[str]:
    most = max((row.setting.nodes for row in found.rows), default=1)
    if found.machines is not None and found.machines < most:
        where = "one machine" if found.machines == 1 else f"{found.machines} machines"
        yield f"all {most} nodes share {where}: speed-up and efficiency here say nothing about real nodes"


def _repeats(found: Report) -> Iterator[str]:
    fewest = min((len(row.sound) for row in found.rows if row.sound), default=0)
    if fewest == 1:
        yield f"a setting has one run: the noise is unknown, so no difference is proved; use --repeats {ENOUGH} or more"
    elif fewest and fewest < ENOUGH:
        yield f"a setting has {fewest} runs: its intervals are wide; use --repeats {ENOUGH} or more"


def _speed(found: Report) -> Iterator[str]:
    if found.by_time:
        yield (
            "throughput is computed from the jobs' elapsed seconds, which include their start; "
            f"--metrics '{THROUGHPUT}=REGEX' reads it from the log"
        )
        return
    once = [row for row in found.rows if any(run.metric(THROUGHPUT).get("count") == 1 for run in row.sound)]
    if once:
        yield "a run printed its throughput only once: the value may include its warm-up"


def _sizes(found: Report) -> Iterator[str]:
    ways: dict[str, list[Row]] = {}
    for row in found.rows:
        ways.setdefault(row.setting.way, []).append(row)
    if all(len(rows) == 1 for rows in ways.values()):
        yield "there is only one size: no speed-up can be computed"
    for rows in ways.values():
        yield from (said for one, other in pairwise(rows) if (said := _unresolved(one, other)))
        for row in rows:
            if row.efficiency is not None and row.efficiency - _relative(row) > 1.0:
                yield f"{row.setting}: better than linear: check what differs besides the size (caches, batch, base)"


def _relative(row: Row) -> float:
    """The noise of a speed, relative to the speed."""
    noise, speed_up = row.speed_up_half_width, row.speed_up
    return row.efficiency * noise / speed_up if noise is not None and speed_up and row.efficiency else 0.05


def _differences(found: Report) -> Iterator[str]:
    """Differences between launchers and variants at the same size."""
    for one, other in combinations(found.rows, 2):
        if one.setting.nodes == other.setting.nodes and (said := _unresolved(one, other)):
            yield said


def _unresolved(one: Row, other: Row) -> str | None:
    if one.throughput is None or other.throughput is None:
        return None
    noise = difference_noise(one.throughput, other.throughput)
    difference = other.throughput.mean - one.throughput.mean
    if noise is None or abs(difference) > noise:
        return None
    share = 100 / one.throughput.mean if one.throughput.mean else 0.0
    by = f"{share * difference:+.1f} % with a noise of ± {share * noise:.1f} %"
    return f"{one.setting} and {other.setting} are equally fast within the noise: {by}"


def _outcomes(found: Report) -> Iterator[str]:
    """A speed-up means nothing if the result differs."""
    for name in found.metrics:
        values = [(row, value) for row in found.rows if (value := row.finals[name])]
        for (one, first), (other, second) in pairwise(values):
            if _differ(first, second):
                yield (
                    f"{name} differs: {first.mean:.4g} with {one.setting}, {second.mean:.4g} with {other.setting}; "
                    "the runs did not do the same work"
                )


def _differ(one: Estimate, other: Estimate) -> bool:
    noise = difference_noise(one, other)
    least = 0.01 * max(abs(one.mean), abs(other.mean))  # less is no other result to a user
    return noise is not None and abs(one.mean - other.mean) > max(noise, least)
