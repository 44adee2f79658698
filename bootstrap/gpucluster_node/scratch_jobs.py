"""What becomes of a node's scratch space when jobs come and go. Slurm's prolog and epilog call it, as root.

usage: scratch_jobs begin|end|boot     of the job SLURM_JOB_ID of the user SLURM_JOB_UID

A job's folder is also the mark that it is on this node: when none is left, all that jobs put elsewhere goes. No job is
held up by this: what cannot be removed is said in the log and tried again after the next job.
"""

from __future__ import annotations

import logging
import os
import pwd
import shutil
import sys
from pathlib import Path

from gpucluster_node import scratch_cache, scratch_place
from gpucluster_node.log import start_logging

log = logging.getLogger("scratch")


def begin(place: Path, job_id: str, uid: int) -> None:
    folder = place / scratch_place.JOBS / job_id
    folder.mkdir(mode=0o700, exist_ok=True)
    os.chown(folder, uid, pwd.getpwuid(uid).pw_gid)


def end(place: Path, job_id: str) -> list[str]:
    """The names of what could not be removed."""
    jobs = place / scratch_place.JOBS
    device = place.stat().st_dev
    left = [] if scratch_place.remove(jobs / job_id, device) else [f"jobs/{job_id}"]
    scratch_cache.forget_job(place / scratch_place.CACHE, job_id)
    if not any(jobs.iterdir()):
        left += scratch_place.empty(place)
        scratch_cache.discard_unfinished(place / scratch_place.CACHE)
    return left


def boot(place: Path) -> list[str]:
    """No job is on a machine that boots, whatever it was told before it went down."""
    cache = place / scratch_place.CACHE
    for job in (place / scratch_place.JOBS).iterdir():
        shutil.rmtree(job, ignore_errors=True)
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
        log.warning("job %s: %s stays, it could not be removed", job_id, place / name)


if __name__ == "__main__":
    main()
