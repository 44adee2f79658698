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
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FIELDS = ["JobID", "User", "Partition", "State", "Submit", "Start", "End", "NodeList", "AllocCPUS", "AllocTRES"]
LIMIT_S = 100
UTC = {"TZ": "UTC0", "SLURM_TIME_FORMAT": "%s"}
"""For times in seconds since 1970 (strftime(3)): local times are ambiguous when summer time ends."""


def main(asked: dict[str, Any]) -> None:
    since, until = float(asked["since"]), float(asked["until"])
    found: dict[str, Any] = {
        "now": time.time(),
        "made": _made(asked["state"]),
        "recorded_since": None,
        "lives": [],
        "records": [],
        "names": {},
        "waits": {},
    }
    for line in _lines(Path(asked["state"])):
        if "since" in line:
            found["recorded_since"] = line["since"]
        elif line["seen"] >= since and line["launched"] <= until:
            found["lives"].append(line)
    found["refused"] = _accounting(found, since, until, asked.get("jobs"))
    found["waits"] = waits(Path(asked["folder"]), {row[0] for row in found["records"]})
    print(json.dumps(found))


def _made(state: str) -> float | None:
    """When the cluster's state folder was made. None: its file system does not keep that (stat(1): %W)."""
    said = subprocess.run(["stat", "-c", "%W", state], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    return float(said) if said.strip().isdigit() and int(said) else None


def _lines(state: Path) -> Iterator[dict[str, Any]]:
    """Of instances that have ended, and of those that run. A line that was cut off is left out."""
    for text in _text(state / "nodes.jsonl").splitlines():
        line = _json(text)
        if isinstance(line, dict):
            yield line
    running = _json(_text(state / "nodes-now.json"))
    for line in running if isinstance(running, list) else []:
        yield {**line, "seen": time.time()}


def _accounting(found: dict[str, Any], since: float, until: float, jobs: str | None) -> str:
    """Returns why there are no records; else an empty string."""
    window = ["--starttime=" + _time(since), "--endtime=" + _time(until)]
    asked = ["sacct", "--allusers", "--duplicates", "--allocations", "--noheader", "--parsable2"]
    asked += ["--jobs=" + jobs] if jobs else window
    mark = secrets.token_hex(8)
    try:
        rows = _run([*asked, "--format=" + ",".join(FIELDS)])
        names = _run([*asked, "--delimiter=" + mark, "--format=JobID,JobName"]) if rows else ""
    except (OSError, subprocess.SubprocessError) as error:
        said = (getattr(error, "stderr", None) or b"").decode(errors="replace") or str(error)
        return (said.strip().splitlines() or ["sacct failed"])[-1]
    found["records"] = [row.split("|") for row in rows.splitlines() if row.count("|") == len(FIELDS) - 1]
    found["names"] = dict(re.findall(rf"^([0-9_+\[\],%-]+){mark}(.*)$", names, re.MULTILINE))
    return ""


def _run(argv: list[str]) -> str:
    environ = {**os.environ, **UTC}
    done = subprocess.run(  # noqa: UP022 - Python 3.6 of older login nodes has no capture_output
        argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ, timeout=LIMIT_S, check=True
    )
    return done.stdout.decode(errors="replace")


def _time(at: float) -> str:
    """For sacct in UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at))


def waits(folder: Path, job_ids: set[str]) -> dict[str, float]:
    """Job -> the share of its time for which its ranks waited for data, in percent, of the caller's own jobs."""
    found = {}
    for job_id in job_ids:
        result = _json(_text(folder / "by-id" / job_id.replace("_", "/") / "result.json"))
        share = _percent(result) if isinstance(result, dict) else None
        if share is not None:
            found[job_id] = share
    return found


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
    except ValueError:
        return None


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


if __name__ == "__main__":
    main(json.loads(sys.stdin.read()))
