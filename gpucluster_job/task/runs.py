"""The records of a task's runs: runs/JOB_ID.json in its folder, which each run writes at its end."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any, Dict

from gpucluster_job.task.asked import Asked

Record = Dict[str, Any]


def write(asked: Asked, result: Record) -> None:
    """Writes in one step. Raises OSError."""
    if not asked.folder:
        return
    kept = {name: result[name] for name in ("job_id", "exit_code", "reason", "started_at", "ended_at")}
    record = {**kept, "key": asked.key, "job_folder": str(asked.job)}
    asked.runs.mkdir(parents=True, exist_ok=True)
    partial = asked.runs / f".{result['job_id']}.json"
    partial.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    partial.replace(asked.runs / f"{result['job_id']}.json")


def last(runs: Path) -> Record | None:
    """The run that ended last, with its final result. Job ids start again in a new cluster."""
    found = []
    for path in runs.glob("[!.]*.json"):
        with suppress(OSError, ValueError):
            found.append(json.loads(path.read_text(encoding="utf-8")))
    latest = max(found, key=lambda record: (record["ended_at"], _numbers(record["job_id"])), default=None)
    return latest and {**latest, **_final(latest)}


def _final(record: Record) -> Record:
    """Exports are checked after the job has written its record, so only result.json has their result."""
    try:
        result = json.loads(Path(record["job_folder"], "result.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, KeyError):
        return {}
    judged = result.get("job_id") == record["job_id"] and result["exit_code"]
    return {"exit_code": result["exit_code"], "reason": result["reason"]} if judged else {}


def _numbers(job_id: str) -> list[int]:
    """12 for 12; 29, 3 for an array's element 29_3."""
    return [int(number) for number in job_id.split("_")]
