"""Running a command of the proof: in sight of the user, with a deadline, and ended whole when that has passed."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GRACE_S = 60.0
"""After Ctrl-C, as `gpucluster` takes it, until it is killed."""


@dataclass(frozen=True)
class Ended:
    argv: tuple[str, ...]
    exit_code: int
    """124 where the deadline ended it, as `timeout` has it."""
    seconds: float
    lines: tuple[str, ...]
    """Standard output and standard error, as they came."""

    @property
    def ok(self) -> bool:
        return self.exit_code == 0


def tell(text: str) -> None:
    """Printed if the output is still open: where it was a closed pipe, the work continues."""
    with contextlib.suppress(OSError):
        print(text, flush=True)


def run(argv: Sequence[str], *, cwd: Path, timeout_s: float) -> Ended:
    tell(f"$ {shlex.join(argv)}")
    began, lines, late = time.monotonic(), [], False
    with subprocess.Popen(
        list(argv), cwd=cwd, env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}, text=True,
        errors="replace", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as process:  # fmt: skip
        reader = threading.Thread(target=_show, args=(process, lines), daemon=True)
        reader.start()
        try:
            process.wait(max(1.0, timeout_s))
        except subprocess.TimeoutExpired:
            late = True
            _end(process)
        except BaseException:
            _end(process)
            raise
        reader.join(5)
    return Ended(tuple(argv), 124 if late else process.returncode, round(time.monotonic() - began, 1), tuple(lines))


def gpucluster(*words: str) -> list[str]:
    return [sys.executable, "-m", "gpucluster.cli", *words]


def _show(process: subprocess.Popen[str], lines: list[str]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        lines.append(line.rstrip("\n"))
        tell(f"  {lines[-1]}")


def _end(process: subprocess.Popen[str]) -> None:
    os.killpg(process.pid, signal.SIGINT)
    try:
        process.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
