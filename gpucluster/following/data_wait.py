"""How much of its time a job waited for data: its program counts that with gpucluster_train.feed, or prints it as the
metric `data_wait`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from gpucluster.following import jobs
from gpucluster.head.arrays import array_of
from gpucluster.head.remote import Remote
from gpucluster.head.slurm import Job

METRIC = "data_wait"
NOTABLE_PERCENT = 5.0
_FAR_APART = 2.0
_REMEDY = "`gpucluster bench --feed` measures whether the loader or the storage limits"


def so_far(remote: Remote, job: Job) -> list[str]:
    """For a running job, in words."""
    if job.phase != "running":
        return []
    lib = f"{jobs.folder_of(remote, array_of(job.job_id)[0])}/lib/gpucluster_job"
    done = remote.run(["/usr/bin/python3", "-IS", lib, "feeds", jobs.folder_of(remote, job.job_id)])
    try:
        return words(json.loads(done.stdout)) if done.exit_code == 0 else []
    except ValueError:
        return []


def is_notable(words: Sequence[str]) -> bool:
    """words: of `words`."""
    return any(_REMEDY in line for line in words)


def percent(result: Mapping[str, Any]) -> float | None:
    """result: as in result.json. None if nobody counted."""
    counted = (result.get("data_wait") or {}).get("percent")
    printed = ((result.get("metrics") or {}).get(METRIC) or {}).get("median")
    found = counted if counted is not None else printed
    return None if found is None else float(found)


def words(result: Mapping[str, Any], *, notable: bool = False) -> list[str]:
    """`notable`: only if it is worth a remedy."""
    share = percent(result)
    if share is None:
        return []
    wait = result.get("data_wait") or {}
    most, ranks = float(wait.get("most_percent", share)), int(wait.get("ranks", 1))
    said = f"its ranks waited {share:.0f} % of the time for data"
    if max(share, most) <= NOTABLE_PERCENT:
        return [] if notable else [said]
    one = f"rank {wait.get('most_rank')} on {wait.get('most_node')}"
    if ranks > 1 and most > share + NOTABLE_PERCENT:
        said += f" ({one} most, {most:.0f} %)"
    found = [f"{said}: {_REMEDY}"]
    if ranks > 1 and most > _FAR_APART * share:
        found.append(f"the other ranks wait for {one} in every step: look at the disks and the load of its node first")
    return found
