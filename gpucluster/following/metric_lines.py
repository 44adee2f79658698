"""The values of a job's metrics, as one line of JSON. The client sends this file's text to the head node's Python.

`COUNT FILE... -- [NAME...]`: of these metrics, or of all, from the first FILE that exists. Its lines are what a user's
programs wrote: each is a value or is left out. At most COUNT values of a metric travel, of every stretch of a run the
least and the greatest; fewer if there are more than a hundred metrics. Python 3.8: the head node may be another
cluster's login node.
"""

from __future__ import annotations

import json
import math
import os
import stat
import sys
from collections.abc import Iterator
from typing import Any, BinaryIO

READ_BYTES = 64 * 2**20
"""Only the end of a larger file is read. The job itself keeps the file smaller: gpucluster_job/metrics/store.py."""
LINE_BYTES = 2**16
MOST_NAMES = 1000
MOST_VALUES, FEWEST = 100_000, 60
"""Values of all metrics that travel, because the page asks for them every few seconds; and at least of each one."""
MOST_WHOLE = 2**53


def main(words: list[str]) -> None:
    at = words.index("--")
    found = list(best(lines(words[1:at]), set(words[at + 1 :])))
    count = min(int(words[0]), max(FEWEST, MOST_VALUES // max(1, len(found))))
    print(json.dumps({name: [_plain(*each) for each in thinned(values, count)] for name, values in found}))


def best(read: Iterator[dict[str, Any]], names: set[str]) -> Iterator[tuple[str, list[Any]]]:
    """Name -> (time, step, value) in the file's order. Of each run of the job those of the lowest rank that has any,
    because ranks mostly write the same. What the program logged counts before what it printed."""
    found: dict[str, dict[int, list[Any]]] = {}
    source: dict[tuple[str, int], tuple[bool, int]] = {}
    for line in read:
        run, here = _whole(line.get("run")) or 0, (line.get("logged") is not True, _whole(line.get("rank")) or 0)
        for name, value in _values(line):
            if (names and name not in names) or (name not in found and len(found) >= MOST_NAMES):
                continue
            known = source.get((name, run))
            if known is None or here < known:
                source[name, run] = here
                found.setdefault(name, {})[run] = [value]
            elif here == known:
                found[name][run].append(value)
    return ((name, [value for run in runs.values() for value in run]) for name, runs in found.items())


def lines(paths: list[str]) -> Iterator[dict[str, Any]]:
    for path in paths:
        try:
            opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # a pipe in its place must not keep us waiting
        except OSError:
            continue
        if stat.S_ISREG(os.fstat(opened).st_mode):
            with os.fdopen(opened, "rb") as file:
                yield from _lines(file)
        return


def _lines(file: BinaryIO) -> Iterator[dict[str, Any]]:
    file.seek(max(0, os.fstat(file.fileno()).st_size - READ_BYTES))
    while text := file.readline(LINE_BYTES):
        try:
            line = json.loads(text) if text.endswith(b"\n") else None  # the last line may not be complete yet
        except (ValueError, RecursionError):
            continue
        if isinstance(line, dict) and isinstance(line.get("values"), dict):
            yield line


def _values(line: dict[str, Any]) -> Iterator[tuple[str, tuple[float, int | None, float]]]:
    """A value that JSON cannot hold, such as NaN, is null in the file."""
    at = _number(line.get("time_s"))
    if at is None or not math.isfinite(at):
        return
    for name, found in line["values"].items():
        value = math.nan if found is None else _number(found)
        if value is not None:
            yield name, (at, _whole(line.get("step")), value)


def _number(value: Any) -> float | None:
    try:
        return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
    except OverflowError:
        return None


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= MOST_WHOLE else None


def thinned(found: list[Any], count: int) -> list[Any]:
    """The first and the last value stay."""
    if len(found) <= count:
        return found
    stretches, kept = max(1, (count - 2) // 2), {0, len(found) - 1}
    for number in range(stretches):
        places = range(len(found) * number // stretches, len(found) * (number + 1) // stretches)
        finite = [place for place in places if math.isfinite(found[place][2])] or places[:1]
        kept.add(min(finite, key=lambda place: found[place][2]))
        kept.add(max(finite, key=lambda place: found[place][2]))
    return [found[place] for place in sorted(kept)]


def _plain(at: float, step: int | None, value: float) -> list[Any]:
    return [at, step, value if math.isfinite(value) else None]


if __name__ == "__main__":
    main(sys.argv[1:])
