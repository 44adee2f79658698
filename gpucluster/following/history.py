"""The job folders on the head node, one line of JSON each. The client sends this file's text to the head node's Python.

`FOLDER COUNT`: of the COUNT newest jobs, and of those whose ids are in stdin. One process reads all: a shell would
start several for each job. Python 3.8: the head node may be another cluster's login node.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

VALUES = '"values": ['


def main(jobs: Path, count: int, others: list[str]) -> None:
    for job_id in chosen(jobs / "by-id", count, set(others)):
        print(json.dumps(entry(jobs / "by-id" / job_id, job_id)))


def chosen(by_id: Path, count: int, others: set[str]) -> Iterator[str]:
    """Oldest first. Jobs of `data shard --array` before the last one have no result of their own, and name that one
    in `finish`."""
    ids = sorted((name for name in _names(by_id) if name.isdecimal()), key=int)
    own = (job_id for job_id in reversed(ids) if not (by_id / job_id / "finish").exists())
    newest = set(islice(own, count))
    return (
        job_id for job_id in ids if job_id in newest or (job_id in others and not (by_id / job_id / "finish").exists())
    )


def entry(folder: Path, job_id: str) -> dict[str, Any]:
    lines = _text(folder / "run.txt").splitlines()
    indexes = folder / "runs" / job_id
    result = _of_array(folder, job_id, indexes) if indexes.exists() else _result(folder / "result.json")
    return {
        "job_id": job_id,
        "folder": os.path.realpath(folder),
        "result": result,
        "run": lines[0].strip() if lines else "",
    }


def _of_array(folder: Path, job_id: str, indexes: Path) -> dict[str, Any]:
    """Kind -> ranges of indexes."""
    kinds: dict[str, list[list[int]]] = {}
    for index in sorted(map(int, indexes.read_text().split())):
        ranges = kinds.setdefault(_kind(folder / str(index), job_id), [])
        if ranges and ranges[-1][1] == index - 1:
            ranges[-1][1] = index
        else:
            ranges.append([index, index])
    return {"elements": kinds}


def _kind(element: Path, job_id: str) -> str:
    """What an element left before it ran again is in a file of that run."""
    earlier = element / f"result-{job_id}.json"
    result = _result(earlier if earlier.exists() else element / "result.json")
    if result and result["exit_code"] == 0:
        return "completed"
    if (element / f"cancelled-{job_id}").exists():
        return "cancelled"
    return "failed" if result else "without result"


def _result(file: Path) -> dict[str, Any] | None:
    """Without the metrics, which may be long. A program of the job may have written the file: one job must not hide the
    others. An element has no elements."""
    try:
        found: Any = json.loads(without_values(_text(file)))
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or not isinstance(found.get("exit_code"), int):
        return None
    if (nodes := found.get("node_list")) is not None:
        found["node_list"] = list(map(str, nodes)) if isinstance(nodes, list) else []
    return {key: value for key, value in found.items() if key not in ("metrics", "elements")}


def without_values(text: str) -> str:
    """A metric has up to a thousand values (gpucluster_job/metrics/summary.py). Not to parse them makes 5,000 files
    with five metrics each eight times as fast."""
    first, *others = text.split(VALUES)
    return first + "".join(VALUES + _after_numbers(each) for each in others)


def _after_numbers(text: str) -> str:
    end = text.find("]")
    return text if end < 0 or '"' in text[:end] else text[end:]


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except OSError:
        return ""


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.stdin.read().split())
