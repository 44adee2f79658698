"""How long the ranks waited for data, from what gpucluster_train/feed_record.py writes: a file for each rank whose
program reads its batches through `gpucluster_train.feed.Feed`.

`feeds FOLDER` prints that of the newest run of a job as JSON, while it runs. FOLDER: the job's.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, Iterable, Iterator, NamedTuple

SPEEDS = ("per_s", "cold_per_s")


class Counted(NamedTuple):
    rank: int
    node: str
    waited_s: float
    seconds: float
    """With training."""
    trial: dict[str, Any]
    """In a run of `gpucluster bench --feed`: its mode, its unit and its speeds."""

    @property
    def percent(self) -> float:
        return min(100.0, 100 * self.waited_s / self.seconds)


def main(words: list[str]) -> int:
    runs = sorted(Path(words[1], "feeds").glob("run-*"), key=lambda run: int(run.name.partition("-")[2]))
    print(json.dumps(_summary(sorted(runs[-1].glob("*.json"))) if runs else {}))
    return 0


def folder(job: Path, runs_before: int) -> str:
    """A run of the job has its own: ranks of an earlier run may have been others."""
    path = f"{job}/feeds/run-{runs_before}"
    with suppress(OSError):  # such as a full /home: the ranks then record nothing
        os.makedirs(path, exist_ok=True)
    return path


def result(place: str, world_size: int) -> dict[str, object]:
    """The fields `data_wait` and `feed` of result.json; empty if no rank recorded anything. The files are opened by
    name: an NFS client may list a folder as it was half a minute ago."""
    return _summary(Path(place, f"{rank}.json") for rank in range(world_size)) if place else {}


def _summary(paths: Iterable[Path]) -> dict[str, object]:
    found = list(_counted(paths))
    fields = {"data_wait": data_wait(found), "feed": feed(found)}
    return {name: value for name, value in fields.items() if value}


def _counted(paths: Iterable[Path]) -> Iterator[Counted]:
    """Without files that are missing, or that a program has damaged."""
    for path in paths:
        with suppress(OSError, ValueError, KeyError, TypeError):
            found = json.loads(path.read_text(encoding="utf-8"))
            trial = {name: found[name] for name in ("mode", "unit", *SPEEDS) if name in found}
            times = float(found["waited_s"]), float(found["seconds"])
            yield Counted(int(found["rank"]), str(found["node"]), *times, trial)


def data_wait(found: list[Counted]) -> dict[str, object]:
    """In percent of the time that the ranks spent in training and waiting; also that of the rank that waited most."""
    timed = [each for each in found if each.seconds > 0]
    if not timed:
        return {}
    most = max(timed, key=lambda each: each.percent)
    percent = 100 * sum(each.waited_s for each in timed) / sum(each.seconds for each in timed)
    rank = {"most_percent": round(most.percent, 1), "most_rank": most.rank, "most_node": most.node}
    return {"percent": round(min(100.0, percent), 1), "ranks": len(timed), **rank}


def feed(found: list[Counted]) -> dict[str, object]:
    """The speed of all ranks together."""
    trials = [each.trial for each in found if "per_s" in each.trial]
    if not trials:
        return {}
    per_s = {name: sum(each[name] for each in trials) for name in SPEEDS if all(name in each for each in trials)}
    return {"mode": trials[0]["mode"], "unit": trials[0]["unit"], "ranks": len(trials), **per_s}
