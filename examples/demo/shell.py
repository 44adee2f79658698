"""Running a command in sight of the user."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class CommandFailed(Exception):
    """A command of the demo ended with another exit code than 0."""


@dataclass(frozen=True)
class Said:
    """Standard output and standard error, as they came."""

    exit_code: int
    lines: list[str]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


def python() -> Path:
    return ROOT / ".venv" / "bin" / "python"


def run(argv: Sequence[str], *, env: Mapping[str, str] | None = None, check: bool = True, echo: bool = True) -> Said:
    """Shows the command and what it says. Raises CommandFailed."""
    if echo:
        print(f"$ {shlex.join(argv)}", flush=True)
    path = f"{python().parent}:{os.environ['PATH']}"
    lines = []
    with subprocess.Popen(
        list(argv), env={**os.environ, **(env or {}), "PATH": path}, cwd=ROOT, text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace",
    ) as process:  # fmt: skip
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line.rstrip("\n"))
            if echo:
                print(f"  {lines[-1]}", flush=True)
    if check and process.returncode != 0:
        raise CommandFailed(f"{shlex.join(argv)}: exit code {process.returncode}")
    return Said(process.returncode, lines)
