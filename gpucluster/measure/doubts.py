"""Warnings about conclusions that a benchmark's result does not support. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise

from gpucluster.following.data_wait import METRIC, NOTABLE_PERCENT
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
        *_data_waits(found),
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
    rows = [row for row in found.rows if row.sound]
    for name in [THROUGHPUT, *found.metrics]:
        unread = [row for row in rows if (row.throughput if name == THROUGHPUT else row.finals[name]) is None]
        if len(unread) == len(rows) > 1:
            yield f"no line of any log matches {name}"
        else:
            yield from (f"{row.setting}: no line of the log matches {name}" for row in unread)


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


def _data_waits(found: Report) -> Iterator[str]:
    """A run that waits for its data scales well: its ranks are never fast enough to need the network."""
    scaled = [row for row in found.rows if row.base and row.efficiency is not None]
    if not scaled:
        return
    waits = {row.setting: row.data_wait_percent for row in found.rows if row.throughput}
    if None in waits.values():
        how = f"gpucluster_train.feed.Feed around the loader measures it, or --metrics '{METRIC}=REGEX'"
        yield f"data wait is not measured, so an efficiency may be that of the loader; {how}"
    setting, most = max(waits.items(), key=lambda each: each[1] or 0.0)
    if most and most > NOTABLE_PERCENT:
        yield (
            f"{setting}: its ranks waited {most:.0f} % of the time for data: the efficiency is that of the loader, "
            "not of the network; `gpucluster bench --feed` measures what limits"
        )


def _relative(row: Row) -> float:
    """The noise of a speed, relative to the speed."""
    noise, speed_up = row.speed_up_half_width, row.speed_up
    return row.efficiency * noise / speed_up if noise is not None and speed_up and row.efficiency else 0.05


def _differences(found: Report) -> Iterator[str]:
    """Differences between launchers and variants at the same size."""
    sizes: dict[int, list[Row]] = {}
    for row in found.rows:
        sizes.setdefault(row.setting.nodes, []).append(row)
    for rows in sizes.values():
        yield from _all_unresolved(rows) or filter(None, (_unresolved(*pair) for pair in combinations(rows, 2)))


def _all_unresolved(rows: Sequence[Row]) -> list[str]:
    """One sentence if no two of several differ."""
    gaps = [_gap(one, other) for one, other in combinations(rows, 2)]
    close = [gap for gap in gaps if gap is not None and abs(gap[0]) <= gap[1]]
    if len(rows) < 3 or len(close) < len(gaps):
        return []
    apart, noise = max(abs(difference) for difference, _ in close), max(noise for _, noise in close)
    *others, last = (str(row.setting) for row in rows)
    by = f"at most {apart:.1f} % apart with a noise of ± {noise:.1f} %"
    return [f"{', '.join(others)} and {last} are equally fast within the noise: {by}"]


def _gap(one: Row, other: Row) -> tuple[float, float] | None:
    """The difference and its noise, in percent of the first; None if they are unknown."""
    if one.throughput is None or other.throughput is None:
        return None
    noise = difference_noise(one.throughput, other.throughput)
    if noise is None:
        return None
    share = 100 / one.throughput.mean if one.throughput.mean else 0.0
    return share * (other.throughput.mean - one.throughput.mean), share * noise


def _unresolved(one: Row, other: Row) -> str | None:
    gap = _gap(one, other)
    if gap is None or abs(gap[0]) > gap[1]:
        return None
    by = f"{gap[0]:+.1f} % with a noise of ± {gap[1]:.1f} %"
    return f"{one.setting} and {other.setting} are equally fast within the noise: {by}"


def _outcomes(found: Report) -> Iterator[str]:
    """A speed-up means nothing if the result differs."""
    for name in found.metrics:
        values = [(row, value) for row in found.rows if (value := row.finals[name])]
        pairs = [pair for pair in combinations(values, 2) if _differ(pair[0][1], pair[1][1])]
        if pairs:
            (one, first), (other, second) = max(pairs, key=lambda pair: abs(pair[0][1].mean - pair[1][1].mean))
            means = f"{first.mean:.4g} with {one.setting}", f"{second.mean:.4g} with {other.setting}"
            how = "differs, most from " + " to ".join(means) if len(pairs) > 1 else "differs: " + ", ".join(means)
            yield f"{name} {how}; the runs did not do the same work"


def _differ(one: Estimate, other: Estimate) -> bool:
    noise = difference_noise(one, other)
    least = 0.01 * max(abs(one.mean), abs(other.mean))  # less is no other result to a user
    return noise is not None and abs(one.mean - other.mean) > max(noise, least)
