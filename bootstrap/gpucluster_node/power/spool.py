"""What Slurm asks for: files in a folder, which its ResumeProgram and SuspendProgram write (bin/power-request).

The first line is Slurm's host list, the rest is Slurm's own file of the jobs that wait (SLURM_RESUME_FILE), which may
be missing or no JSON. Slurm's user may write into the folder and nothing more, but anything: a file is data to check.
/run is cleared at boot, as Slurm's requests are.
"""

from __future__ import annotations

import json
import logging
import os
import pwd
import re
import stat
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from gpucluster_node import slurm

log = logging.getLogger("spool")
FOLDER = Path("/run/gpucluster/requests")
RESUME, SUSPEND = "resume", "suspend"
MOST_BYTES = 32 * 2**20
"""Slurm's file has about 300 bytes for each job that waits. A longer one has no jobs that are known."""
MOST_NODES = 100_000
MOST_NODES_OF_JOBS = 1_000_000
"""In one request: several jobs may wait for a node."""
MOST_FILES = 1000
"""In one look."""
_NAME = re.compile(rf"({RESUME}|{SUSPEND})\.[A-Za-z0-9]+")
_HOSTS = re.compile(r"([A-Za-z0-9_-]+(\[[0-9]{1,7}(-[0-9]{1,7})?(,[0-9]{1,7}(-[0-9]{1,7})?)*\])?(,|$))+")
_RANGE = re.compile(r"[\[,]([0-9]+)-([0-9]+)")


class InvalidError(ValueError):
    """The file is none that our programs write."""


@dataclass(frozen=True)
class Request:
    """The nodes that Slurm wants, or no longer wants, and its jobs that wait for them."""

    nodes: Sequence[str]
    jobs: Sequence[dict[str, Any]] = ()
    since: float = field(default_factory=time.time, compare=False)
    """When Slurm asked."""
    verb: str = RESUME


def waiting(folder: Path = FOLDER) -> list[Path]:
    """The oldest first."""
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        named = islice((each for each in entries if not each.name.startswith(".")), MOST_FILES)
        found = [(each.stat(follow_symlinks=False).st_mtime, each.path) for each in named]
        return [Path(path) for _, path in sorted(found)]
    return []


def read(path: Path, owners: Collection[int] | None = None) -> Request:
    """owners: uids whose files count; without it, root's and that of Slurm's user. Raises InvalidError, OSError."""
    name = _NAME.fullmatch(path.name)
    if not name:
        raise InvalidError(f"{path.name!a} is no name of a request")
    content, at = _content(path, owners if owners is not None else _owners())
    hosts, whole, jobs = content.partition(b"\n")
    if not whole:
        raise InvalidError(f"{path.name!a} has no whole line")
    nodes = expand(hosts.decode(errors="replace"))
    return Request(nodes, list(_jobs(jobs)), min(at, time.time()), name[1])


def _owners() -> frozenset[int]:
    return frozenset({0, pwd.getpwnam("slurm").pw_uid})


def _content(path: Path, owners: Collection[int]) -> tuple[bytes, float]:
    """And when it was written. A link, a pipe or a device is not followed or waited for."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError as error:
        raise InvalidError(f"{path.name!a} cannot be opened: {error.strerror}") from None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise InvalidError(f"{path.name!a} is no file")
        if found.st_uid not in owners:
            raise InvalidError(f"{path.name!a} is owned by uid {found.st_uid}")
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(MOST_BYTES), found.st_mtime
    finally:
        os.close(descriptor)


def expand(hosts: str) -> list[str]:
    """The nodes of a host list that somebody else may have written."""
    if not _HOSTS.fullmatch(hosts) or hosts.endswith(","):
        raise InvalidError(f"{hosts[:100]!a} is no list of nodes")
    if hosts.count(",") + sum(int(last) - int(first) for first, last in _RANGE.findall(hosts)) > MOST_NODES:
        raise InvalidError(f"{hosts[:100]!a} has more than {MOST_NODES} nodes")
    return slurm.expand(hosts)


def _jobs(content: bytes) -> Iterator[dict[str, Any]]:
    """The file has text of users, such as --extra, which may be no UTF-8. Without the file, all nodes are launched one
    by one."""
    if not content.strip():
        return
    try:
        found, left = json.loads(content.decode(errors="replace"), strict=False)["jobs"], MOST_NODES_OF_JOBS
        for job in found:
            left -= len(expand(job["nodes_resume"]))
            if left < 0:
                raise InvalidError(f"they wait for more than {MOST_NODES_OF_JOBS} nodes")
            yield {"job_id": int(job["job_id"]), "nodes_resume": job["nodes_resume"]}
    except (ValueError, LookupError, TypeError, ArithmeticError, RecursionError) as error:
        log.warning("the jobs that wait for the nodes are not known: %s", error)


def discard(path: Path) -> bool:
    """Whether it is gone."""
    with suppress(OSError):
        path.unlink(missing_ok=True)
    return not os.path.lexists(path)
