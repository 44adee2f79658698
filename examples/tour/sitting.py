"""One sitting on a booted cluster: its commands as a user types them, and what they print."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import shlex
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
COLUMNS, LINES = 110, 40
_STYLE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))")


class CommandFailed(Exception):
    """A command ended with an exit code that the tour does not expect."""


@dataclass
class Seen:
    """A command, and what it printed to a terminal of COLUMNS columns."""

    command: str
    ansi: str

    @property
    def text(self) -> str:
        return _STYLE.sub("", self.ansi).strip("\n")


@dataclass
class Sitting:
    environment: dict[str, str]
    seen: dict[str, Seen] = field(default_factory=dict)
    jobs: dict[str, str] = field(default_factory=dict)

    def see(self, name: str, *words: str, allowed: Sequence[int] = (0,)) -> Seen:
        """Runs `gpucluster WORDS` in a terminal. Raises CommandFailed."""
        command = shlex.join(["gpucluster", *words])
        print(f"$ {command}", flush=True)
        code, printed = _in_terminal(["gpucluster", "-c", str(HERE / "cluster.yaml"), *words], self.environment)
        self.seen[name] = Seen(command, printed)
        print(self.seen[name].text, flush=True)
        if code not in allowed:
            raise CommandFailed(f"{command}: exit code {code}")
        return self.seen[name]

    def submit(self, name: str, *words: str) -> str:
        """Returns the job's id."""
        workdir = ["--workdir", str(HERE / "programs")]
        argv = ["gpucluster", "-c", str(HERE / "cluster.yaml"), "submit", "--name", name, *workdir, *words]
        print(f"$ {shlex.join(argv[:1] + argv[3:])}", flush=True)
        done = subprocess.run(argv, env=self.environment, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            raise CommandFailed(f"submit {name}: exit code {done.returncode}")
        self.jobs[name] = str(json.loads(done.stdout.splitlines()[-1])["job_id"])
        return self.jobs[name]

    def listed(self) -> list[dict[str, object]]:
        argv = ["gpucluster", "-c", str(HERE / "cluster.yaml"), "jobs", "--json"]
        done = subprocess.run(argv, env=self.environment, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
        found: list[dict[str, object]] = json.loads(done.stdout)
        return found

    def state(self, job_id: str) -> str:
        """Empty if it is not listed."""
        return next((str(each["state"]) for each in self.listed() if str(each["job_id"]) == job_id), "")

    def running_elements(self, job_id: str) -> int:
        found = next((each["elements"] for each in self.listed() if str(each["job_id"]) == job_id), {})
        return int(found.get("running", 0)) if isinstance(found, dict) else 0

    def wait_until(self, what: str, holds: Callable[[], bool], limit_s: float = 420) -> None:
        """Raises CommandFailed after limit_s."""
        until = time.monotonic() + limit_s
        while not holds():
            if time.monotonic() > until:
                raise CommandFailed(f"not within {limit_s:.0f} s: {what}")
            time.sleep(2)

    def wait_for_end(self, name: str) -> None:
        ended = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "")
        self.wait_until(f"job {name} ends", lambda: self.state(self.jobs[name]).split(" ")[0] in ended)


def _in_terminal(argv: Sequence[str], environment: dict[str, str]) -> tuple[int, str]:
    here, there = pty.openpty()
    fcntl.ioctl(there, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    sized = {**environment, "TERM": "xterm-256color", "COLUMNS": str(COLUMNS), "LINES": str(LINES)}
    process = subprocess.Popen(argv, env=sized, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=there, stderr=there)
    os.close(there)
    parts = []
    while True:
        try:
            data = os.read(here, 65536)
        except OSError:  # Linux answers EIO when the last writer has closed a terminal
            break
        if not data:
            break
        parts.append(data)
    os.close(here)
    return process.wait(), b"".join(parts).decode(errors="replace").replace("\r\n", "\n")


def environment() -> dict[str, str]:
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
