"""What Linux does for ranks: it signals a process when its parent dies, shows its name, and counts the processes
that it has killed because memory ran out."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import sys
from contextlib import suppress

_PR_SET_PDEATHSIG = 1
_VMSTAT, _OWN_GROUPS, _GROUPS = "/proc/vmstat", "/proc/self/cgroup", "/sys/fs/cgroup"
_STEP = re.compile(r"^0::(/.*?/job_[0-9]+/step_[^/\n]+|.*)", re.MULTILINE)
"""0::/system.slice/slurmstepd.scope/job_12/step_0/user/task_0"""


def end_with_parent(number: int = signal.SIGTERM) -> None:
    """This process gets the signal when its parent dies; a program that it executes gets it too.

    horovodrun, when it ends ranks that are just starting, can kill a rank's parent and miss the rank. The second check
    covers a parent that died before the request.
    """
    parent = os.getppid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0)
    if parent != os.getppid() or parent == 1:
        sys.exit(128 + signal.SIGTERM)


def name_this_process(name: str) -> None:
    """As `ps` and /proc/PID/comm show it: up to 15 bytes."""
    with suppress(OSError), open("/proc/self/comm", "w", encoding="ascii") as file:
        file.write(name)


def out_of_memory_kills() -> int:
    """How many processes the kernel has killed because memory ran out, of the machine or of a control group.

    Counts those of this step of the job on this node, as Slurm does (_get_memory_events in cgroup_v2.c), because jobs
    may share the node. Without cgroup v2 it counts those of the machine. 0 before Linux 4.13.
    """
    for path in (_events_file(), _VMSTAT):
        try:
            with open(path, encoding="ascii") as file:
                return next((int(line.split()[1]) for line in file if line.startswith("oom_kill ")), 0)
        except OSError:
            continue
    return 0


def limit_hits() -> int:
    """How often this job was at its own limit of memory when the kernel looked for a process to kill. 0 without
    cgroup v2, or if Slurm sets no limit (ConstrainRAMSpace in cgroup.conf)."""
    return max((_events(group).get("oom", 0) for group in _groups()), default=0)


def limit() -> str:
    """The job's limit of memory on this node, such as `8.0 GiB`; empty if it has none."""
    found = []
    for group in _groups():
        with suppress(OSError, ValueError), open(f"{_GROUPS}{group}/memory.max", encoding="ascii") as file:
            found.append(int(file.read()))  # "max" without a limit
    return f"{min(found) / 2**30:.1f} GiB" if found else ""


def _groups() -> list[str]:
    """Those of the step and of the job, which Slurm limits both."""
    group = _own_group()
    job, _, step = group.rpartition("/step_")
    return [group, *([job] if job and "/" not in step else [])] if group else []


def _events(group: str) -> dict[str, int]:
    try:
        with open(f"{_GROUPS}{group}/memory.events", encoding="ascii") as file:
            return {name: int(count) for name, count in (line.split() for line in file)}
    except (OSError, ValueError):
        return {}


def _events_file() -> str:
    return f"{_GROUPS}{_own_group()}/memory.events"


def _own_group() -> str:
    """The step's control group; our own, if Slurm did not start us in one."""
    try:
        with open(_OWN_GROUPS, encoding="utf-8") as file:
            found = _STEP.search(file.read())
    except OSError:
        found = None
    return found[1] if found else ""
