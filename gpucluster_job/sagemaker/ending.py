"""What a host writes for SageMaker when its part of the job has ended."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Iterator

from gpucluster_job import failures
from gpucluster_job.log import say

LONGEST = 1024
"""Characters of output/failure that SageMaker shows as FailureReason."""
_FAILED = re.compile(r"^\[(\d+) ([^]]+)\] exited with code (\d+): (.*)")


class Heard:
    """The first rank that says in the launcher's output why it failed: ranks on other hosts record it only there."""

    def __init__(self) -> None:
        self.found: list[failures.Failure] = []

    def hear(self, line: bytes) -> None:
        if failures.ENDED in line:
            match = _FAILED.match(line.decode(errors="replace"))
            if match:
                label, node, code, reason = match.groups()
                self.found.append(failures.Failure(0.0, int(code), label, node, reason))


def first(place: str, heard: Heard) -> failures.Failure | None:
    """The rank whose failure most likely caused the job's, as far as this host knows."""
    recorded = failures.recorded(place)
    said = sorted(heard.found, key=lambda each: each.because_of_a_peer)
    return next(iter([*recorded, *said]), None)


def is_cause(failed: failures.Failure | None) -> bool:
    """Whether this host knows why the job failed. SageMaker shows the reason of the host that ends first."""
    return failed is not None and not failed.because_of_a_peer


def reason(failed: failures.Failure | None, launcher: str, code: int, last: str) -> str:
    if failed:
        return f"{failed.who} on {failed.node} exited with code {failed.code}: {failed.reason}"
    return f"{launcher} exited with code {code}: {last or 'it printed nothing'}"


def write_failure(base: Path, why: str) -> None:
    """If the disk is full, SageMaker shows the exit code alone."""
    output = base / "output"
    with suppress(OSError):
        output.mkdir(parents=True, exist_ok=True)
        (output / "failure").write_text(" ".join(why.split())[:LONGEST], encoding="utf-8")
    say(f"error: {why}")


def remarks(base: Path, host: str, number: int) -> Iterator[str]:
    """SageMaker packs the files of all hosts into one archive, where equal names may collide."""
    for folder in (base / "model", base / "output" / "data") if number else ():
        if files := sum(len(names) for _, _, names in os.walk(folder)):
            yield (
                f"[sagemaker] {host} has written {files} file{'s' * (files > 1)} to {folder}: the files of all hosts "
                "come into one archive, where equal names may collide; let rank 0 write, or put the rank into the names"
            )
