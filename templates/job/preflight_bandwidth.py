"""What `preflight: full` measured, held against what was published for the instance type.

usage: bandwidth.py FOLDER EXIT_CODE_OF_THE_ALL_REDUCE. Reads allreduce.txt (the framework's own) and nccl-tests.txt, as
far as they are there. Adds to report.json, prints lines for the log; for an error writes failure and exits with 3.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

FAILED = 3
TIMED_OUT = 124
SLOW, BROKEN = 0.7, 0.25
"""Of the published figure: below, the nodes are worth a look; below, this is not the network that was paid for."""
SIZE = 2**30
"""That published figures are compared at: at smaller sizes versions of NCCL differ twofold."""

_LAUNCHERS_LABEL = re.compile(r"^\[(?:\d+,)?\d+\]<std(?:out|err)>: ?", re.MULTILINE)
_ROW = re.compile(r"^ *(\d+)\s+\d+\s+\w+\s+\w+\s+-?\d+\s+([\d.]+)\s+([\d.]+)\s+([\d.]+)\s+(\S+)")
_LABEL = re.compile(r"^\[0 [^]]+\] (\{.*\})$")
_FAILED = re.compile(r"^\[(\d+) ([^]]+)\] exited with \d+ at [\d.]+: (.*)$")


def nccl_tests(text: str) -> dict[int, float]:
    """Bytes -> bus bandwidth out of place, GB/s. Raises ValueError where a result was wrong."""
    rows = [match for match in map(_ROW.match, text.splitlines()) if match]
    if wrong := [row[1] for row in rows if row[5] not in ("0", "N/A")]:
        raise ValueError(f"nccl-tests: wrong results at {', '.join(wrong)} bytes")
    return {int(row[1]): float(row[4]) for row in rows}


def framework(text: str) -> dict[str, Any] | None:
    """Of an all-reduce that went well, what rank 0 told."""
    found = [match[1] for match in map(_LABEL.match, text.splitlines()) if match]
    return dict(json.loads(found[-1])) if found else None


def failure(text: str, code: int) -> tuple[str, str]:
    """Node, and the first rank's last words."""
    match = next(filter(None, map(_FAILED.match, text.splitlines())), None)
    if match:
        return match[2], f"an all-reduce in the job's framework failed on rank {match[1]} ({match[2]}): {match[3]}"
    last = next((line for line in reversed(text.splitlines()) if line.strip()), "it printed nothing")
    if code == TIMED_OUT:
        return "", f"an all-reduce in the job's framework did not end in its five minutes: {last}"
    return "", f"an all-reduce in the job's framework failed with exit code {code}: {last}"


def verdict(measured: float, published: dict[str, Any] | None) -> tuple[str, str]:
    """(level, words). No figure for this number of nodes: bus bandwidth does not carry over from another."""
    if published is None:
        return "", f"{measured:.1f} GB/s bus bandwidth at 1 GiB; no published figure for this type and number of nodes"
    share = measured / published["gb_per_s"]
    words = f"{measured:.1f} GB/s bus bandwidth at 1 GiB, {share:.0%} of the published {published['gb_per_s']:g} GB/s"
    if share >= SLOW:
        return "", words
    return ("broken" if share < BROKEN else "slow"), f"{words} ({published['source']}), expected {SLOW:.0%}"


def judge(folder: Path, code: int, expected: dict[str, Any]) -> dict[str, Any]:
    """errors, warnings, lines for the log, measured; and the node of the first error."""
    found: dict[str, Any] = {"errors": [], "warnings": [], "lines": [], "measured": {}, "node": ""}
    text = _read(folder / "allreduce.txt")
    told = framework(text)
    if code:
        found["node"], reason = failure(text, code)
        found["errors"].append(reason)
    elif told and "skipped" in told:
        found["warnings"].append(f"no all-reduce was made: {told['skipped']}")
    elif told:
        found["measured"]["framework"] = told
        _compare(found, f"{told['framework']}, {told['ranks']} ranks", _speed(told), expected)
    _nccl_tests(found, _read(folder / "nccl-tests.txt"), expected)
    return found


def _read(path: Path) -> str:
    """Without the labels that horovodrun and mpirun put before each line."""
    return _LAUNCHERS_LABEL.sub("", path.read_text(errors="replace")) if path.exists() else ""


def _speed(told: dict[str, Any]) -> float | None:
    return told["busbw_gb_per_s"] if told.get("bytes") == SIZE else None


def _nccl_tests(found: dict[str, Any], text: str, expected: dict[str, Any]) -> None:
    if not text:
        return
    try:
        speeds = nccl_tests(text)
    except ValueError as error:
        found["errors"].append(str(error))
        return
    if not speeds:
        found["warnings"].append(f"nccl-tests told no result: {text.strip().splitlines()[-1]}")
    found["measured"]["nccl_tests_gb_per_s"] = speeds
    if SIZE in speeds:
        _compare(found, "nccl-tests", speeds[SIZE], expected)


def _compare(found: dict[str, Any], who: str, speed: float | None, expected: dict[str, Any]) -> None:
    if speed is None:
        found["lines"].append(f"{who}: the sum is right")
        return
    level, words = verdict(speed, expected["published"])
    if level == "broken" and expected["efa"] == "required":
        found["errors"].append(f"{who}: {words}; the job has efa: required")
    elif level:
        found["warnings"].append(f"{who}: {words}; two nodes at a time, `--sbatch-args=--nodelist=…` finds a slow one")
    else:
        found["lines"].append(f"{who}: {words}")


def main() -> int:
    folder, code = Path(sys.argv[1]), int(sys.argv[2])
    found = judge(folder, code, json.loads((folder / "expected.json").read_text()))
    path = folder / "report.json"
    report = json.loads(path.read_text())
    for key in ("errors", "warnings"):
        report[key] += found[key]
    path.write_text(json.dumps(report | {"measured": found["measured"]}))
    for prefix, key in (("error: ", "errors"), ("warning: ", "warnings"), ("", "lines")):
        for text in found[key]:
            print(f"[preflight] {prefix}{text}", flush=True)
    if found["errors"]:
        (folder / "failure").write_text(f"{found['node']}\n{found['errors'][0]}\n")
    return FAILED if found["errors"] else 0


if __name__ == "__main__":
    sys.exit(main())
