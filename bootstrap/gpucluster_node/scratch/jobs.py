"""Creates and deletes jobs' folders on a node's scratch space. Slurm's prolog and epilog call it, as root.

usage: scratch_jobs begin|end|boot     for the job SLURM_JOB_ID of the user SLURM_JOB_UID

A job's folder also shows that the job runs on this node. When no job is left, all other files of jobs are deleted too.
Beside the folders there are `.lock`, a lock that is held for this decision; `.over-ID` for each job that has ended; and
`.gone`. Files are first moved to `.gone` and then deleted, so that a job that begins meanwhile loses nothing and does
not wait long. Files that cannot be deleted are logged, and deleted after the next job.
"""

from __future__ import annotations

import logging
import os
import pwd
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from gpucluster_node import locks
from gpucluster_node.log import start_logging
from gpucluster_node.scratch import cache as scratch_cache
from gpucluster_node.scratch import place as scratch_place

log = logging.getLogger("scratch")


LOCK, OVER, GONE = ".lock", ".over-", ".gone"


def begin(place: Path, job_id: str, uid: int) -> None:
    jobs = place / scratch_place.JOBS
    folder = jobs / job_id
    with _locked(jobs):
        folder.mkdir(mode=0o700, exist_ok=True)
        os.chown(folder, uid, pwd.getpwuid(uid).pw_gid)
        (jobs / f"{OVER}{job_id}").unlink(missing_ok=True)


def end(place: Path, job_id: str) -> list[str]:
    """Returns the names of files that could not be removed."""
    jobs, cache = place / scratch_place.JOBS, place / scratch_place.CACHE
    scratch_cache.forget_job(cache, job_id)
    with _locked(jobs):
        (jobs / f"{OVER}{job_id}").touch()
        left = _move_jobs(jobs)
        none_runs = not any(_of_running(jobs))
        if none_runs:
            left += [path.name for path in scratch_place.of_jobs(place) if not _moved(path, jobs)]
    if none_runs:
        scratch_cache.discard_unfinished(cache)
    return left + _remove_moved(jobs, place.stat().st_dev)


@contextmanager
def _locked(jobs: Path) -> Iterator[None]:
    with locks.held(jobs / LOCK):
        yield


def _of_running(jobs: Path) -> Iterator[Path]:
    over = {mark.name.removeprefix(OVER) for mark in jobs.glob(f"{OVER}*")}
    return (path for path in jobs.iterdir() if not path.name.startswith(".") and path.name not in over)


def _move_jobs(jobs: Path) -> list[str]:
    """Removes all that are over, with the lock held; returns the names of those that stay, such as mounted ones."""
    left = []
    for mark in jobs.glob(f"{OVER}*"):
        job_id = mark.name.removeprefix(OVER)
        if _moved(jobs / job_id, jobs):
            mark.unlink()
        else:
            left.append(f"{jobs.name}/{job_id}")
    return left


def _moved(path: Path, jobs: Path) -> bool:
    gone = jobs / GONE
    gone.mkdir(mode=0o700, exist_ok=True)
    try:
        path.rename(gone / uuid4().hex)
    except OSError:
        return not os.path.lexists(path)
    return True


def _remove_moved(jobs: Path, device: int) -> list[str]:
    """Also removes what an earlier end could not remove, or was interrupted at."""
    moved = jobs / GONE
    paths = list(moved.iterdir()) if moved.is_dir() else []
    return [f"{jobs.name}/{GONE}/{path.name}" for path in paths if not scratch_place.remove(path, device)]


def boot(place: Path) -> list[str]:
    """After a boot no job is on the machine, whatever the folders say."""
    cache, device = place / scratch_place.CACHE, place.stat().st_dev
    for path in (place / scratch_place.JOBS).iterdir():
        scratch_place.remove(path, device)
    for job_id in scratch_cache.jobs(cache):
        scratch_cache.forget_job(cache, job_id)
    scratch_cache.discard_unfinished(cache)
    return scratch_place.empty(place)


def main() -> None:
    start_logging()
    place, job_id = scratch_place.place(), os.environ.get("SLURM_JOB_ID", "")
    left: list[str] = []
    try:
        if sys.argv[1] == "begin":
            begin(place, job_id, int(os.environ["SLURM_JOB_UID"]))
        else:
            left = end(place, job_id) if sys.argv[1] == "end" else boot(place)
    except (OSError, KeyError) as error:
        log.warning("job %s: %s of %s: %s", job_id, sys.argv[1], place, error)
    for name in left:
        log.warning("job %s: %s could not be removed and stays", job_id, place / name)


if __name__ == "__main__":
    main()
