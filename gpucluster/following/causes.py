"""Why a job does not get its nodes: launches and boots as the head node's programs record them, and why Slurm does not
use a node."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from gpucluster.head import slurm
from gpucluster.head.remote import Remote
from gpucluster.head.slurm import Job, Node
from gpucluster.job.script import HANG_TIMEOUT

SLOW_BOOT = timedelta(minutes=5)
QUIET = timedelta(minutes=1)
LONGEST_LINE = 200
RECENT = timedelta(minutes=15)
_RESTARTS = "Restarts="
_FOR_NODES = ("BeginTime", "ReqNodeNotAvail", "Nodes required", "NodeDown", "Resources")

# A line for each job, of its id and its nodes: `Restarts=1 train-1 train-2`, with a count for each element of an array.
# `scontrol show job` also has the count, but after the job's name, in which a user could write another.
# Then the files that the head node's programs wrote, one per line.
_READ = """
while [ $# -gt 0 ]; do
  echo $(squeue --noheader --jobs="$1" --Format=RestartCnt:10 | sed 's/^ */Restarts=/') $(scontrol show hostnames "$2")
  shift 2
done
for file in /run/gpucluster/launching/*.json /run/gpucluster/booting.json /run/gpucluster/failures.json; do
  [ ! -e "$file" ] || { cat "$file"; echo; }
done
"""

# The time, and of a job's folder: when its log was last written, its hang_timeout, and the last line of a rank. The
# script of an array's element is in the folder above.
_READ_LOG = rf"""
date +%s
echo "$(stat -c %Y "$1/log.txt")"
echo "$(sed -n 's/^export {HANG_TIMEOUT}=//p' "$1/job.sbatch" "$1/../job.sbatch" | head -n 1)"
tail -n 200 "$1/log.txt" | grep -aE '^\[([0-9]+|chief) [^]]+\] ' | tail -n 1
"""


@dataclass(frozen=True)
class Launches:
    waits: Mapping[str, str] = field(default_factory=dict)
    """Node -> why EC2 has not launched it."""
    booting: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Node -> its instance and launch time."""
    failures: Sequence[Mapping[str, str]] = ()
    """The nodes that failed a check or their boot: node, at, why."""


def of(remote: Remote, job: Job) -> list[str]:
    return of_all(remote, [job]).get(job.job_id, [])


def of_all(remote: Remote, jobs: Sequence[Job]) -> dict[str, list[str]]:
    """Job id -> causes, for jobs that wait for nodes in vain. Calls the head node only if there are such jobs."""
    start = [job for job in jobs if slurm.job_state(job.state).starts]
    wait = [
        job
        for job in jobs
        if slurm.base_state(job.state) == "PENDING" and job.reason.strip("()").startswith(_FOR_NODES)
    ]
    return _of_starting(remote, start) | _of_pending(remote, wait)


def _of_starting(remote: Remote, jobs: Sequence[Job]) -> dict[str, list[str]]:
    if not jobs:
        return {}
    asked = (word for job in jobs for word in (job.job_id, job.node_list))
    lines = remote.run(["sh", "-c", _READ, "sh", *asked]).stdout.splitlines()
    launches, now = parse(lines[len(jobs) :]), datetime.now(UTC)
    return {
        job.job_id: list(starting(words.split(), launches, now))
        for job, words in zip(jobs, lines[: len(jobs)], strict=False)
    }


def _of_pending(remote: Remote, jobs: Sequence[Job]) -> dict[str, list[str]]:
    if not jobs:
        return {}
    nodes = slurm.parse_nodes(remote.run(slurm.sinfo_argv()).stdout)
    return {
        job.job_id: list(out_of_service([node for node in nodes if node.partition in job.partition.split(",")]))
        for job in jobs
    }


def quiet(remote: Remote, job: Job, folder: str) -> list[str]:
    """For a running job: since when its log has not grown. A program that hangs keeps running."""
    if job.phase != "running":
        return []
    now, then, limit, last = [*remote.run(["sh", "-c", _READ_LOG, "sh", folder]).stdout.splitlines(), *[""] * 4][:4]
    silent = timedelta(seconds=int(now) - int(then)) if then.isdecimal() else timedelta()
    if silent < QUIET:
        return []
    since = f"{datetime.fromtimestamp(int(then), UTC):%H:%M:%S} UTC"
    found = [f"its log has not grown for {silent // timedelta(minutes=1)} min, since {since}"]
    if last:
        found.append(f"the last line of a rank: {last[:LONGEST_LINE]}")
    if limit.isdecimal():
        silence = timedelta(seconds=int(limit))
        found.append(f"hang_timeout ends the job if for {silence} no rank prints a line or writes a file")
    look = f"`gpucluster ssh -- ssh NODE top -b -n 1` shows whether it works, `gpucluster cancel {job.job_id}` ends it"
    return [*found, look]


def parse(files: Sequence[str]) -> Launches:
    waits: dict[str, str] = {}
    booting: dict[str, Any] = {}
    failures: list[Mapping[str, str]] = []
    for found in filter(None, map(_json, files)):
        if "began" in found:
            waits |= found.get("waits", {})
        elif "failures" in found:
            failures += found["failures"]
        else:
            booting |= found
    return Launches(waits, booting, failures)


def starting(words: Sequence[str], launches: Launches, now: datetime) -> Iterator[str]:
    """`words`: of the job's line."""
    counts = [word.removeprefix(_RESTARTS) for word in words if word.startswith(_RESTARTS)]
    nodes = [word for word in words if not word.startswith(_RESTARTS)]
    if any(count != "0" for count in counts):
        yield from _failed({node.rpartition("-")[0] for node in nodes}, launches, now)
    waiting = {node: launches.waits[node] for node in nodes if node in launches.waits}
    for why in dict.fromkeys(waiting.values()):
        names = ", ".join(node for node in waiting if waiting[node] == why)
        yield f"EC2 has not launched {names} yet: {why}"
    for node in nodes:
        if boot := launches.booting.get(node):
            launched = datetime.fromisoformat(boot["launched"])
            if now - launched >= SLOW_BOOT:
                yield f"{node} has not joined: its instance {boot['instance']} was launched at {launched:%H:%M:%S} UTC"


def _failed(partitions: Collection[str], launches: Launches, now: datetime) -> Iterator[str]:
    """The job may have been requeued because of one of them."""
    for each in launches.failures:
        at = datetime.fromisoformat(each["at"])
        if each["node"].rpartition("-")[0] in partitions and now - at < RECENT:
            yield f"{each['node']} failed at {at:%H:%M:%S} UTC and is replaced: {each['why']}"


def out_of_service(nodes: Sequence[Node]) -> Iterator[str]:
    """Each reason once, with its nodes."""
    lost = {node.name: node.reason for node in nodes if not node.available and node.reason}
    for reason in dict.fromkeys(lost.values()):
        yield f"{', '.join(name for name in lost if lost[name] == reason)}: {reason}"


def _json(text: str) -> dict[str, Any] | None:
    """None if the file is being replaced."""
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
