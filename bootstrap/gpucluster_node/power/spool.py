"""What Slurm asks for: files in a folder, which its ResumeProgram and SuspendProgram write (bin/power-request).

The first line is Slurm's host list, the rest is Slurm's own file of the jobs that wait (SLURM_RESUME_FILE), which may
be missing or no JSON. Slurm's user may write into the folder and nothing more, but anything: a file is data to check.
/run is cleared at boot, as Slurm's requests are.
"""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpucluster_node import slurm, spooled
from gpucluster_node.spooled import InvalidError

log = logging.getLogger("spool")
FOLDER = Path("/run/gpucluster/requests")
RESUME, SUSPEND = "resume", "suspend"
MOST_BYTES = 32 * 2**20
"""Slurm's file has about 300 bytes for each job that waits. A longer one has no jobs that are known."""
MOST_NODES = 100_000
MOST_NODES_OF_JOBS = 1_000_000
"""In one request: several jobs may wait for a node."""
_NAME = re.compile(rf"({RESUME}|{SUSPEND})\.[A-Za-z0-9]+")
_HOSTS = re.compile(r"([A-Za-z0-9_-]+(\[[0-9]{1,7}(-[0-9]{1,7})?(,[0-9]{1,7}(-[0-9]{1,7})?)*\])?(,|$))+")
_RANGE = re.compile(r"[\[,]([0-9]+)-([0-9]+)")


@dataclass(frozen=True)
class Request:
    """The nodes that Slurm wants, or no longer wants, and its jobs that wait for them."""

    nodes: Sequence[str]
    jobs: Sequence[dict[str, Any]] = ()
    since: float = field(default_factory=time.time, compare=False)
    """When Slurm asked."""
    verb: str = RESUME


def read(path: Path, owners: Collection[int] | None = None) -> Request:
    """owners: uids whose files count; without it, root's and that of Slurm's user. Raises InvalidError, OSError."""
    name = _NAME.fullmatch(path.name)
    if not name:
        raise InvalidError(f"{path.name!a} is no name of a request")
    content, at = spooled.content(path, owners, MOST_BYTES)
    hosts, whole, jobs = content.partition(b"\n")
    if not whole:
        raise InvalidError(f"{path.name!a} has no whole line")
    nodes = expand(hosts.decode(errors="replace"))
    return Request(nodes, list(_jobs(jobs)), min(at, time.time()), name[1])


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
