"""Control groups of machines, on hosts with the unified hierarchy and on hybrid ones.

Every guest's init needs its own group, or guests on one host share /payload and end each other. A hybrid host needs one
in cgroup2 and one in v1's `name=systemd`.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path


def hierarchies(mounts: str | None = None) -> list[Path]:
    """Where groups must be created, cgroup2 first, from the text of /proc/mounts."""
    text = mounts if mounts is not None else Path("/proc/mounts").read_text()
    rows = [line.split() for line in text.splitlines()]
    unified = [Path(row[1]) for row in rows if row[2] == "cgroup2"]
    named = [Path(row[1]) for row in rows if row[2] == "cgroup" and "name=systemd" in row[3].split(",")]
    return [*unified[:1], *named[:1]]


def mode(mounts: str | None = None) -> str:
    """unified | hybrid | legacy | none."""
    found = [path.name for path in hierarchies(mounts)]
    if not found:
        return "none"
    if found == ["systemd"]:
        return "legacy"
    return "hybrid" if len(found) == 2 else "unified"


def create(name: str) -> list[Path]:
    groups = [root / name for root in hierarchies()]
    for group in groups:
        group.mkdir(parents=True, exist_ok=True)
    return groups


def pids(name: str) -> list[int]:
    """Every process in the group and in the groups below it."""
    found: set[int] = set()
    for root in hierarchies():
        for folder, _, _ in os.walk(root / name):  # os.walk skips groups that vanish meanwhile, unlike rglob
            with contextlib.suppress(OSError):
                found.update(int(line) for line in Path(folder, "cgroup.procs").read_text().split())
    return sorted(found - {0})


def kill(name: str, timeout_s: float = 5.0) -> list[int]:
    """Kills every process of the group until none is left; returns the killed ones."""
    killed: set[int] = set()
    deadline = time.monotonic() + timeout_s
    while (alive := pids(name)) and time.monotonic() < deadline:
        for pid in alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, 9)
        killed.update(alive)
        time.sleep(0.05)
    return sorted(killed)


def remove(name: str) -> bool:
    """Removes the group and those below it; False if there was none."""
    removed = False
    for root in hierarchies():
        folders = [path for path, _, _ in os.walk(root / name, topdown=False)]
        for folder in folders:
            with contextlib.suppress(OSError):
                os.rmdir(folder)
                removed = True
    return removed
