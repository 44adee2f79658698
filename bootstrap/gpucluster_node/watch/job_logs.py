"""Hard links to the logs of recent jobs, for the CloudWatch agent, which follows every file that it finds forever.

A job's log belongs to its user, who may put anything in its place at any moment, and the agent runs as root. A hard
link stays with the file that was checked, whatever a user does with the path. It lies on the file system of /home,
because a hard link cannot cross file systems.
"""

from __future__ import annotations

import logging
import os
import re
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HOMES = Path("/home")
LINKS = HOMES / "gpucluster/job-logs"
RECENT_S = 86_400
JOB_ID = re.compile(r"\d+")
log = logging.getLogger("job_logs")


def refresh(homes: Path = HOMES, links: Path = LINKS, *, now: float | None = None) -> None:
    """Links the log of each job that was written to within a day. Users choose the names in by-id, so a link has the
    user's name too."""
    since = (now or time.time()) - RECENT_S
    try:
        links.mkdir(0o700, parents=True, exist_ok=True)
        recent = {link.name for link in _recent(homes, links, since)}
        for link in links.iterdir():
            if link.name not in recent:
                link.unlink()
    except OSError as error:
        log.warning("could not link the logs of jobs: %s", error)


def _recent(homes: Path, links: Path, since: float) -> Iterator[Path]:
    for job in homes.glob("*/jobs/by-id/*"):
        home = homes / job.relative_to(homes).parts[0]
        if not JOB_ID.fullmatch(job.name):
            continue
        link = links / f"{home.name}_{job.name}.txt"
        try:
            with _opened(job / "log.txt") as file:
                if _is_recent(os.fstat(file), home.stat().st_uid, since) and _linked(file, link):
                    yield link
        except OSError:  # there is none, or a user has put something else in its place
            continue


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    """Opens it without blocking: a user may have replaced the file by a pipe."""
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        yield file
    finally:
        os.close(file)


def _is_recent(found: os.stat_result, owner: int, since: float) -> bool:
    return stat.S_ISREG(found.st_mode) and found.st_uid == owner and found.st_mtime >= since


def _linked(file: int, link: Path) -> bool:
    try:
        _link(file, link)
    except OSError as error:
        log.warning("could not link %s: %s", link.name, error)
        return False
    return True


def _link(file: int, link: Path) -> None:
    """Links the open file: its path may lead to another file by now."""
    if link.exists() and os.path.samestat(link.stat(), os.fstat(file)):
        return
    link.unlink(missing_ok=True)
    folder = os.open(link.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        # Only with a folder's descriptor does Python use linkat, which can follow the kernel's link to the open file.
        os.link(f"/proc/self/fd/{file}", link.name, dst_dir_fd=folder, follow_symlinks=True)
    finally:
        os.close(folder)
