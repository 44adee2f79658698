"""The results of an array's elements, as JSON: `elements FOLDER ARRAY_ID [--summary]`. Runs on the head node.

`FOLDER/runs/<id>` has the indexes of each array that ran here: the first, and those that were submitted again.
Before an element runs again, its log and result are renamed to `log-<id>.txt` and `result-<id>.json`, an empty file
if there was no result. `cancelled-<id>` is beside them if the element of that array was cancelled.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Dict

Element = Dict[str, Any]


def main(words: list[str]) -> int:
    folder, array_id = Path(words[1]), words[2]
    found = read(folder, array_id, newest="--summary" not in words)
    print(json.dumps(summary(found) if "--summary" in words else found))
    return 0


def arrays(folder: Path) -> dict[str, list[str]]:
    """The indexes of each array that ran here, by its id, the first one first. Empty for a job that is no array."""
    found = sorted((int(path.name), path) for path in (folder / "runs").glob("[0-9]*"))
    return {path.name: path.read_text(encoding="utf-8").split() for _, path in found}


def read(folder: Path, array_id: str, *, newest: bool) -> list[Element]:
    """`newest`: for elements that ran again in a later array, the result of that run."""
    runs = arrays(folder)
    last = {index: run for run in sorted(runs, key=int) for index in runs[run]}
    return [_element(folder / index, last[index] if newest else array_id) for index in runs[array_id]]


def _element(folder: Path, run: str) -> Element:
    earlier = folder / f"result-{run}.json"
    result = _json(earlier if earlier.exists() else folder / "result.json")
    return {
        "index": int(folder.name),
        "job_id": f"{run}_{folder.name}",
        "parameters": _json(folder / "parameters.json") or {},
        "result": _without_values(result) if result else None,
        "cancelled": (folder / f"cancelled-{run}").exists(),
    }


def _without_values(result: Element) -> Element:
    """A thousand elements have a megabyte of values."""
    metrics = result.get("metrics") or {}
    short = {name: {key: each[key] for key in each if key != "values"} for name, each in metrics.items()}
    return {**result, "metrics": short} if metrics else result


def summary(elements: list[Element]) -> Element:
    """In the form of a result.json."""
    completed = [each for each in elements if each["result"] and each["result"]["exit_code"] == 0]
    others = [each for each in elements if each not in completed]
    cancelled = [each for each in others if each["cancelled"]]
    failed = [each for each in others if each["result"] and not each["cancelled"]]
    counts = {"completed": len(completed), "failed": len(failed), "cancelled": len(cancelled)}
    return {
        "exit_code": 0 if len(completed) == len(elements) else 1,
        "elements": {**counts, "without result": len(elements) - sum(counts.values())},
        "first_failed": failed[0] if failed else None,
    }


def _json(path: Path) -> Element | None:
    try:
        found: Element = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found
