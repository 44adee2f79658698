"""The folders with TensorBoard's event files of some jobs: `JOBS JOB_ID...`, one line of JSON for each run. The client
sends this file's text to the head node's Python, which may be 3.8.

A sweep has a run for each of its elements. Jobs that are not there have no line.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def main(by_id: Path, job_ids: list[str]) -> None:
    for job_id in job_ids:
        for found in runs(by_id, job_id):
            print(json.dumps({"asked": job_id, **found}))


def runs(by_id: Path, job_id: str) -> Iterator[dict[str, Any]]:
    number, _, index = job_id.partition("_")
    folder = by_id / number
    name = os.path.basename(os.path.realpath(folder)).rsplit("-", 3)[0]
    own = (folder / "runs" / number).is_file()
    for each in [index] if index else (folder / "runs" / number).read_text().split() if own else [""]:
        where = folder / each if each else folder
        if where.is_dir():
            yield {
                "job_id": f"{number}_{each}" if each else number,
                "name": name,
                "folder": os.path.realpath(where),
                "task": _json(where / "task.json"),
                "values": _json(where / "parameters.json"),
            }


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


if __name__ == "__main__":
    main(Path(sys.argv[1], "by-id"), sys.argv[2:])
