"""Results of staging in a job's folder: staging.json during a transfer, exports.json after it.

A job whose exports are not in S3 has failed, whatever its program's exit code; result.json says so too.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpucluster_node import files
from gpucluster_node.lustre.transfer import Outcome

MOST_NAMED = 20
EXIT_CODE = 74
"""sysexits' EX_IOERR, for a job whose program succeeded and whose exports failed."""


@dataclass(frozen=True)
class Export:
    path: str
    outcome: Outcome
    reason: str
    """Why it is not complete; empty if it is."""

    def report(self) -> dict[str, Any]:
        failed = [{"file": path, "reason": why} for path, why in sorted(self.outcome.failed.items())[:MOST_NAMED]]
        return {
            "path": self.path,
            "files": self.outcome.files,
            "exported_now": self.outcome.moved,
            "failed": len(self.outcome.failed),
            "reason": self.reason or None,
            "first_failed": failed,
        }

    def line(self) -> str:
        if self.reason:
            return f"error: {self.reason}"
        count = f"{self.outcome.files} file{'s' * (self.outcome.files != 1)}"
        return f"{count} of {self.path} {'are' if self.outcome.files != 1 else 'is'} in S3"


def sentence(path: str, outcome: Outcome, what: str) -> str:
    """`3 of 12 files of /fsx/runs did not reach S3, such as /fsx/runs/a: Lustre gave up on it`."""
    first, why = min(outcome.failed.items())
    return f"{len(outcome.failed)} of {outcome.files} files of {path} {what}, such as {first}: {why}"


def progress(folder: Path, stage: str, path: str, done: int, total: int) -> None:
    """stage: in | out."""
    put(folder / "staging.json", {"stage": stage, "path": path, "done": done, "total": total})


def waits_for(folder: Path, mount: str, reason: str) -> None:
    """For a file system that is created for the job. reason: why it cannot be created; empty if it can."""
    put(folder / "staging.json", {"stage": "in", "path": mount, "waits": True, "reason": reason})


def progress_over(folder: Path) -> None:
    (folder / "staging.json").unlink(missing_ok=True)


def write(folder: Path, job_id: str, exports: Sequence[Export]) -> None:
    failed = [each.reason for each in exports if each.reason]
    put(
        folder / "exports.json",
        {
            "job_id": job_id,
            "state": "incomplete" if failed else "complete",
            "exports": [each.report() for each in exports],
            "ended_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        },
    )
    with open(folder / "log.txt", "a", errors="replace") as log:
        log.writelines(f"[exports] {each.line()}\n" for each in exports)
    if failed:
        _fail(folder / "result.json", "; ".join(failed))
    progress_over(folder)


def _fail(path: Path, reason: str) -> None:
    """An earlier failure has its own reason, which takes precedence. A job that lost its first node has no result."""
    try:
        result = json.loads(path.read_text())
    except (OSError, ValueError):
        return
    if result["exit_code"] == 0:
        result["exit_code"] = EXIT_CODE
    result["reason"] = "; ".join(filter(None, (result.get("reason"), reason)))
    put(path, result)


def put(path: Path, value: Any) -> None:
    files.put(path, json.dumps(value, indent=2) + "\n")
