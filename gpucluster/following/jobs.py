"""What the cluster knows of its jobs and nodes.

Slurm forgets a job minutes after its end, and there may be no slurmdbd: then the job's own result.json decides.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from gpucluster.errors import JobFailedError, RemoteError, UsageError
from gpucluster.head import slurm
from gpucluster.head.remote import Remote
from gpucluster.head.slurm import Job, Node
from gpucluster.job.script import ENVIRONMENTS, JOBS

POLL_S = 2.0

# job id, folder, result.json in one line, for the newest jobs
_HISTORY = """
cd "$1/by-id" 2>/dev/null || exit 0
for id in $(ls | sort -n | tail -n "$2"); do
  printf '%s\\t%s\\t' "$id" "$(readlink -f "$id")"
  cat "$id/result.json" 2>/dev/null | tr -d '\\n' || :
  echo
done
"""


# Of the jobs that made what this one needs, the first that did not: what it said last, or that it did not end.
_UNMADE = """
while read -r name id how; do
  [ -n "$how" ] && [ ! -e "$2/.wanted/$name/complete" ] || continue
  log=$2/.log/$(basename "$(readlink "$2/.wanted/$name")").txt
  said=$(sed -n 's/^error: //p' "$log" 2>/dev/null | tail -n 1)
  echo "${said:-the environment $name was not built: job $id, which builds it, failed}"
  exit
done 2>/dev/null <"$1/builds"
"""


@dataclass(frozen=True)
class Past:
    """A job that has, or had, a folder."""

    job_id: str
    folder: str
    result: dict[str, Any] | None
    """result.json; None while the job has not ended, or where its first node died with it."""


def folder_of(job_id: str) -> str:
    return f"{JOBS}/by-id/{job_id}"


def real_folder(remote: Remote, job_id: str) -> str:
    """Under the name that the job was submitted with. Raises RemoteError."""
    return remote.run(["readlink", "-e", folder_of(job_id)]).check(f"job {job_id} has no folder").stdout.strip()


def current(remote: Remote) -> list[Job]:
    return slurm.parse_jobs(remote.run(slurm.squeue_argv()).check("cannot list jobs").stdout)


def find(remote: Remote, job_id: str) -> Job | None:
    """None where Slurm does not know it, or no longer."""
    done = remote.run(slurm.squeue_argv(job_id))
    if done.exit_code != 0 and "Invalid job id" in done.stderr:
        return None
    found = slurm.parse_jobs(done.check(f"cannot query job {job_id}").stdout)
    return found[0] if found else None


def nodes(remote: Remote, partition: str | None = None) -> list[Node]:
    return slurm.parse_nodes(remote.run(slurm.sinfo_argv(partition)).check("cannot list nodes").stdout)


def past(remote: Remote, count: int = 20) -> list[Past]:
    """Jobs with a folder, oldest first."""
    lines = (
        remote.run(["sh", "-c", _HISTORY, "sh", JOBS, str(count)]).check("cannot list job folders").stdout.splitlines()
    )
    fields = (line.split("\t", 2) for line in lines if line.count("\t") >= 2)
    return [Past(job_id, folder, _json(text)) for job_id, folder, text in fields]


def latest(remote: Remote) -> str:
    """The id of the newest job. Raises UsageError."""
    found = past(remote, 1)
    if not found:
        raise UsageError("there is no job yet", "`gpucluster submit -- python train.py` submits one")
    return found[-1].job_id


def result(remote: Remote, job_id: str) -> dict[str, Any] | None:
    done = remote.run(["cat", f"{folder_of(job_id)}/result.json"])
    return _json(done.stdout) if done.exit_code == 0 else None


def require(remote: Remote, job_id: str) -> Job | None:
    """The job in Slurm, if it is still there. Raises UsageError where it never was."""
    job = find(remote, job_id)
    if job is None and remote.run(["test", "-d", folder_of(job_id)]).exit_code != 0:
        raise UsageError(f"there is no job {job_id}", "`gpucluster jobs` lists them")
    return job


def first_node(remote: Remote, job_id: str) -> str:
    """Where its script and its rank 0 run. Raises UsageError where it has no nodes now."""
    job = require(remote, job_id)
    if job is None or job.phase != "running":
        state = describe(job) if job else f"job {job_id} has ended"
        raise UsageError(f"{state}: it has no node now", "`gpucluster jobs` lists the jobs that run")
    return remote.run(slurm.hostnames_argv(job.node_list)).check("cannot list the job's nodes").stdout.split()[0]


@dataclass(frozen=True)
class Ending:
    state: str
    result: dict[str, Any]

    @property
    def failed(self) -> bool:
        return self.state != "COMPLETED"

    @property
    def reason(self) -> str:
        """Empty where there is no more to say than the state."""
        rank, node = self.result.get("failed_rank"), self.result.get("failed_node")
        reason = str(self.result.get("reason") or "")
        if rank is None:
            return reason
        who = f"rank {rank}" if isinstance(rank, int) else rank  # a server, a scheduler, a chief
        return f"{who} on {node} exited with code {self.result.get('exit_code')}: {reason}"

    def check(self, job_id: str) -> None:
        """Raises JobFailedError."""
        if self.failed:
            raise JobFailedError(self.sentence(job_id), f"`gpucluster logs {job_id}` shows its log")

    def sentence(self, job_id: str) -> str:
        said = f"job {job_id} {slurm.job_state(self.state).meaning}"
        return f"{said}: {self.reason}" if self.failed and self.reason else said


def ending(remote: Remote, job_id: str) -> Ending | None:
    """None while it has not ended. Slurm's word goes first, as long as it has one; but it knows nothing of exports."""
    job = find(remote, job_id)
    if job and job.phase in ("waiting", "running"):
        return None
    found = result(remote, job_id)
    lacks = {} if found else _unmade(remote, job_id)
    if job:
        state = slurm.base_state(job.state)
        return Ending("FAILED" if state == "COMPLETED" and found and found["exit_code"] else state, found or lacks)
    if lacks:
        return Ending("CANCELLED", lacks)
    if found is None:
        return Ending(
            "NODE_FAIL", {"reason": "Slurm no longer knows it and it left no result: its first node was probably lost"}
        )
    return Ending("COMPLETED" if found["exit_code"] == 0 else "FAILED", found)


def staging(remote: Remote, job_id: str) -> dict[str, Any]:
    """How far its data is on its way from or to S3: stage (in | out), path, done, total. Empty where nothing moves."""
    done = remote.run(["cat", f"{folder_of(job_id)}/staging.json"])
    return (_json(done.stdout) or {}) if done.exit_code == 0 else {}


def _unmade(remote: Remote, job_id: str) -> dict[str, Any]:
    """The reason as in result.json of a job that never started because its environment could not be made."""
    done = remote.run(["sh", "-c", _UNMADE, "sh", folder_of(job_id), ENVIRONMENTS])
    return {"reason": done.stdout.strip()} if done.stdout.strip() else {}


class Watch:
    """Asked whether a job has ended, as often as one likes: asks Slurm every POLL_S, and tells what changed."""

    def __init__(self, remote: Remote, job_id: str, tell: Callable[[str], None]) -> None:
        self._remote, self._job_id, self._tell = remote, job_id, tell
        self._asked, self._told = 0.0, ""

    def ended(self) -> bool:
        if time.monotonic() - self._asked < POLL_S:
            return False
        self._asked = time.monotonic()
        job = find(self._remote, self._job_id)
        if job is None or job.phase == "done":
            return True
        self._tell_once(describe(job))
        return False

    def _tell_once(self, text: str) -> None:
        if text != self._told:
            self._told = text
            self._tell(text)


def describe(job: Job) -> str:
    """One line: its state, and while it waits why."""
    state = slurm.job_state(job.state)
    if slurm.base_state(job.state) == "PENDING":
        return f"job {job.job_id} {state.meaning}: {slurm.pending_reason(job.reason)}"
    where = f" on {job.node_list}" if job.node_list else ""
    return f"job {job.job_id} {state.meaning}{where}"


def follow(remote: Remote, job_id: str, tell: Callable[[str], None]) -> Iterator[str]:
    """The lines of its log until it has ended. Raises RemoteError."""
    return remote.follow(f"{folder_of(job_id)}/log.txt", stop=Watch(remote, job_id, tell).ended)


def log(remote: Remote, job_id: str) -> str:
    return remote.get(f"{folder_of(job_id)}/log.txt").decode(errors="replace")


def _json(text: str) -> dict[str, Any] | None:
    if not text.strip():
        return None
    try:
        found: dict[str, Any] = json.loads(text)
    except ValueError as error:
        raise RemoteError(f"result.json cannot be read: {error}") from None
    return found
