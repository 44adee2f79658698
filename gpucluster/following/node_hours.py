"""What a bill is made of, as one line of JSON: Slurm's accounting records, when the nodes' instances ran, and how long
ranks waited for data. The client sends this file's text to the head node's Python, with the question in stdin.

Job names may have separators and line breaks, which could forge records. So a first call of sacct has only fields that
users do not write, and a second call has the names, behind a mark that is made here. Python 3.8.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FIELDS = ["JobID", "User", "Partition", "State", "Submit", "Eligible", "Start", "End", "NodeList"]
FIELDS += ["AllocCPUS", "AllocTRES"]
LIMIT_S = 100
LONGEST = 65536
UTC = {"TZ": "UTC0", "SLURM_TIME_FORMAT": "%s"}
"""For times in seconds since 1970 (strftime(3)): local times are ambiguous when summer time ends."""


def main(asked: dict[str, Any]) -> None:
    """asked: the folder of the cluster's state and that of the caller's jobs; and since, until, or jobs, the ids of
    jobs: then all that ran since their submission, without names, or, with `job`, only this one."""
    state, folder = Path(asked["state"]), Path(asked["folder"])
    found: dict[str, Any] = {"now": time.time(), "made": _made(state), "recorded_since": None}
    since, until = asked.get("since", 0.0), asked.get("until", 0.0)
    if ids := asked.get("jobs") or asked.get("job"):
        found.update(accounting(["--jobs=" + ids], asked))
        since, until = _overlapping(found["records"])
    if "job" not in asked and since <= until:
        margin = asked["margin_s"]
        found.update(accounting(["--starttime=" + _time(since - margin), "--endtime=" + _time(until + margin)], asked))
    found["lives"] = []
    for line in _lines(state):
        if "since" in line:
            found["recorded_since"] = line["since"]
        elif line["seen"] >= since and line["launched"] <= until:
            found["lives"].append(line)
    found["waits"] = waits(folder, {row[0] for row in found["records"]})
    if "job" in asked:
        found.update(of_job(folder / "by-id" / asked["job"].replace("_", "/"), asked["job"]))
    print(json.dumps(found))


def _overlapping(records: list[list[str]]) -> tuple[float, float]:
    """From the first submission on. Nothing, without records."""
    submitted = [float(row[4]) for row in records if row[4].isdigit()]
    return min(submitted, default=float("inf")), time.time()


def _made(state: Path) -> float | None:
    """When the cluster's state folder was made. None: its file system does not keep that (stat(1): %W)."""
    said = subprocess.run(["stat", "-c", "%W", str(state)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    return float(said) if said.strip().isdigit() and int(said) else None


def _lines(state: Path) -> Iterator[dict[str, Any]]:
    """Instances that have ended, and those that run. A line that was cut off is left out."""
    for text in _text(state / "nodes.jsonl").splitlines():
        line = _json(text)
        if isinstance(line, dict):
            yield line
    running = _json(_text(state / "nodes-now.json"))
    for line in running if isinstance(running, list) else []:
        yield {**line, "seen": time.time()}


def accounting(which: list[str], asked: dict[str, Any]) -> dict[str, Any]:
    """records, names, and why there are none: an empty string if sacct has answered."""
    argv = ["sacct", "--allusers", "--duplicates", "--allocations", "--noheader", "--parsable2", *which]
    mark, limit_s = secrets.token_hex(8), asked.get("limit_s", LIMIT_S)
    try:
        rows = _run([*argv, "--format=" + ",".join(FIELDS)], limit_s)
        named = rows and "jobs" not in asked
        names = _run([*argv, "--delimiter=" + mark, "--format=JobID,JobName"], limit_s) if named else ""
    except (OSError, subprocess.SubprocessError) as error:
        said = (getattr(error, "stderr", None) or b"").decode(errors="replace") or str(error)
        return {"records": [], "names": {}, "refused": (said.strip().splitlines() or ["sacct failed"])[-1]}
    records = [row.split("|") for row in rows.splitlines() if row.count("|") == len(FIELDS) - 1]
    found = re.findall(r"^([0-9_+\[\],%-]+)" + mark + "(.*)$", names, re.MULTILINE)
    return {"records": records, "names": _unforged(found, Counter(row[0] for row in records)), "refused": ""}


def _unforged(found: list[tuple[str, str]], records: Counter[str]) -> dict[str, str]:
    """Everybody reads a process's arguments (proc(5)), and may rename a job while sacct runs: then a job has more names
    than records, and none of them counts."""
    names: dict[str, list[str]] = {}
    for job_id, name in found:
        names.setdefault(job_id, []).append(name)
    return {job_id: each[-1] for job_id, each in names.items() if len(each) <= records[job_id]}


def _run(argv: list[str], limit_s: float) -> str:
    environ = {**os.environ, **UTC}
    done = subprocess.run(  # noqa: UP022 - Python 3.6 of older login nodes has no capture_output
        argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ, timeout=limit_s, check=True
    )
    return done.stdout.decode(errors="replace")


def _time(at: float) -> str:
    """For sacct in UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at))


def waits(folder: Path, job_ids: set[str]) -> dict[str, float]:
    """Job -> the share of its time for which its ranks waited for data, in percent, of the caller's own jobs."""
    found = {}
    for job_id in job_ids:
        text = _text(folder / "by-id" / job_id.replace("_", "/") / "result.json")
        result = _json(text) if "data_wait" in text else None  # most have none, and metrics of a hundred kB
        share = _percent(result) if isinstance(result, dict) else None
        if share is not None:
            found[job_id] = share
    return found


def of_job(folder: Path, job_id: str) -> dict[str, Any]:
    """What the job's own programs recorded: its phases, and when its newest run began and ended."""
    lines = [_json(line) for line in _text(folder / "phases.jsonl")[-LONGEST:].splitlines()]
    result = _json(_text(folder / "result.json"))
    return {
        "phases": [each for each in lines if isinstance(each, dict) and each.get("job") == job_id],
        "result": {key: result.get(key) for key in ("started_at", "ended_at")} if isinstance(result, dict) else {},
        "started": _text(folder / "started").strip(),
    }


def _percent(result: dict[str, Any]) -> float | None:
    """As following/data_wait.py: percent."""
    try:
        counted = (result.get("data_wait") or {}).get("percent")
        printed = ((result.get("metrics") or {}).get("data_wait") or {}).get("median")
        found = counted if counted is not None else printed
        return None if found is None else min(100.0, max(0.0, float(found)))
    except (AttributeError, TypeError, ValueError):
        return None


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


if __name__ == "__main__":
    main(json.loads(sys.stdin.read()))
