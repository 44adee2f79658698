"""Links to the logs of recent jobs, for the CloudWatch agent, which follows every file that it finds for ever.

A job's log belongs to its user, who may have put anything in its place, so only a plain file of that user is linked.
"""

from __future__ import annotations

import logging
import stat
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

JOBS = Path("/home/ubuntu/jobs/by-id")
LINKS = Path("/var/log/gpucluster/jobs")
RECENT_S = 86_400
log = logging.getLogger("job_logs")


def refresh(jobs: Path = JOBS, links: Path = LINKS, *, now: float | None = None) -> None:
    """Links the log of each job that was written to within a day, by the job's id."""
    try:
        _link(links, dict(_recent(jobs, (now or time.time()) - RECENT_S)))
    except OSError as error:
        log.warning("could not link the logs of jobs: %s", error)


def _link(links: Path, wanted: Mapping[str, Path]) -> None:
    links.mkdir(parents=True, exist_ok=True)
    for link in links.iterdir():
        if link.name not in wanted:
            link.unlink()
    for name, target in wanted.items():
        if not (links / name).is_symlink():
            (links / name).symlink_to(target)


def _recent(jobs: Path, since: float) -> Iterator[tuple[str, Path]]:
    for job in jobs.glob("*"):
        file = job / "log.txt"
        try:
            found = file.lstat()
        except OSError:
            continue
        if stat.S_ISREG(found.st_mode) and found.st_uid and found.st_mtime >= since:
            yield f"{job.name}.txt", file
