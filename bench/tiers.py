"""What each tier of tests costs: `python -m bench.tiers [--workers N] [TIER...]`, then a table and a JSON line.

CPU seconds are of all processes of a tier, also of those that go on by themselves: local clouds, their nodes and what
these run. This process takes in orphans, and the kernel adds up what its children have used as they end.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import re
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

ROOT = Path(__file__).resolve().parents[1]
PR_SET_CHILD_SUBREAPER = 36
PYTEST = ["python", "-m", "pytest", "-q", "--dist=loadgroup", "--no-loadscope-reorder"]
TIERS = {
    "lint": ["make", "--no-print-directory", "lint"],
    "unit": [*PYTEST, "tests/unit"],
    "shell": [*PYTEST, "tests/shell"],
    "cloud": [*PYTEST, "tests/cloud"],
    "cluster": [*PYTEST, "tests/cluster"],
    "localcloud": [*PYTEST, "localcloud/tests"],
}


@dataclass(frozen=True)
class Cost:
    tier: str
    tests: int
    failed: int
    cpu_s: int
    wall_s: int


def measured(tier: str, workers: int) -> Cost:
    argv = TIERS[tier] if tier == "lint" else [*TIERS[tier], f"--numprocesses={workers}"]
    before, began = _used_s(), time.monotonic()
    done = subprocess.run(argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    wall_s = time.monotonic() - began
    _reap()
    if done.returncode and not _count("failed", done.stdout):
        print(done.stdout[-3000:], file=sys.stderr)
    passed, failed = _count("passed", done.stdout), _count("failed", done.stdout) + _count("error", done.stdout)
    return Cost(tier, passed + failed, failed, round(_used_s() - before), round(wall_s))


def _used_s() -> float:
    used = getrusage(RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _reap() -> None:
    """Waits for processes that outlive their tests: a tier's clouds end with the tests' process."""
    deadline = time.monotonic() + 60
    with suppress(ChildProcessError):
        while time.monotonic() < deadline:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(0.2)


def _count(word: str, said: str) -> int:
    """Reads pytest's last line."""
    found = re.findall(rf"(\d+) {word}", said.strip().splitlines()[-1] if said.strip() else "")
    return int(found[0]) if found else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.tiers")
    parser.add_argument("tiers", nargs="*", metavar="TIER", help=f"of {', '.join(TIERS)}; default: all")
    parser.add_argument("--workers", type=int, default=3)
    options = parser.parse_args()
    if unknown := set(options.tiers) - set(TIERS):
        parser.error(f"no such tier: {', '.join(sorted(unknown))}; there are {', '.join(TIERS)}")
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl: cannot take in orphans")
    costs = [measured(tier, options.workers) for tier in options.tiers or TIERS]
    print("| tier | tests | CPU s | wall s |\n|---|---|---|---|")
    for cost in costs:
        print(
            f"| {cost.tier} | {cost.tests} | {cost.cpu_s} | {cost.wall_s} |"
            + f" {cost.failed} failed" * bool(cost.failed)
        )
    print(json.dumps([asdict(cost) for cost in costs]))
    return int(any(cost.failed for cost in costs))


if __name__ == "__main__":
    sys.exit(main())
