"""The state of the cluster's jobs and nodes.

Slurm forgets a job minutes after its end, and there may be no slurmdbd. Then the job's own result.json decides.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpucluster import account
from gpucluster.errors import CloudError, JobFailedError, RemoteError, UsageError
from gpucluster.following import causes, history, job_json, ownership, silent
from gpucluster.following.patience import Patience
from gpucluster.head import arrays, queue, slurm
from gpucluster.head.remote import Remote
from gpucluster.head.slurm import Job, Node
from gpucluster.job.chain import Wait, parse_waits
from gpucluster.job.script import ENVIRONMENTS

POLL_S = 2.0
NEWEST = 100
NO_RESULT = "it wrote no result.json; `gpucluster status` shows whether /home is full"

# The first job that failed to build an environment of this job: its last error, or that it failed.
_UNMADE = """
while read -r name id how; do
  [ -n "$how" ] && [ ! -e "$2/.wanted/$name/complete" ] || continue
  log=$2/.log/$(basename "$(readlink "$2/.wanted/$name")").txt
  said=$(sed -n 's/^error: //p' "$log" 2>/dev/null | tail -n 1)
  echo "${said:-the environment $name was not built: job $id, which builds it, failed}"
  exit
done 2>/dev/null <"$1/builds"
"""


# For an array, the sum of its elements. For an element that ran again since, the result of the earlier run.
_RESULT = """
folder=$1 number=${2%%_*}
if [ -e "$folder/runs/$2" ]; then
  exec /usr/bin/python3 -IS "$folder/lib/gpucluster_job" elements "$folder" "$2" --summary
fi
cat "$folder/result-$number.json" 2>/dev/null || cat "$folder/result.json"
"""


@dataclass(frozen=True)
class Past:
    """A job with a folder, whether it runs or has ended."""

    job_id: str
    folder: str
    result: dict[str, Any] | None
    """result.json. None until the job ends, or if its first node was lost before writing it."""
    run: str = ""
    """`run 2 of at most 21`, for a job that continues after its time limit."""

    @property
    def state(self) -> str:
        """The state of a job that Slurm has forgotten."""
        if elements := self.elements:
            return "COMPLETED" if set(elements) == {"completed"} else "FAILED"
        return "UNKNOWN" if not self.result else "FAILED" if self.result["exit_code"] else "COMPLETED"

    @property
    def kinds(self) -> dict[int, str]:
        """Index -> kind, of an array's elements."""
        found = (self.result or {}).get("elements", {}).items()
        return {index: kind for kind, ranges in found for first, last in ranges for index in range(first, last + 1)}

    @property
    def elements(self) -> dict[str, int]:
        """Kind -> count, of an array."""
        return arrays.counted(self.kinds.values())

    @property
    def reason(self) -> str:
        """Why it failed; for an array, how many of its elements failed."""
        why = Ending(self.state, self.result or {}).reason if self.state == "FAILED" else ""
        return arrays.words(self.elements) or why


def folder_of(remote: Remote, job_id: str) -> str:
    """For 29_3, an element of an array: the folder 3 in the array's folder."""
    return remote.real(f"{account.jobs()}/by-id/{job_id.replace('_', '/')}")


def last_of(remote: Remote, job_id: str) -> str:
    """The last job of `data shard --array`, if this is one of the jobs before it, or a part; else empty."""
    return remote.run(["cat", f"{folder_of(remote, arrays.array_of(job_id)[0])}/finish"]).stdout.strip()


def elements_argv(remote: Remote, array_id: str) -> list[str]:
    folder = folder_of(remote, array_id)
    return ["/usr/bin/python3", "-IS", f"{folder}/lib/gpucluster_job", "elements", folder, array_id]


def real_folder(remote: Remote, job_id: str) -> str:
    """The folder under its original name, with links resolved. Raises UsageError if it has none."""
    if last := last_of(remote, job_id):
        copies = f"`gpucluster fetch {last}` copies that of all parts"
        raise UsageError(f"job {job_id} has no folder of its own", copies)
    done = remote.run(["readlink", "-e", folder_of(remote, job_id)])
    if done.exit_code:
        made = "jobs of `gpucluster submit` and `gpucluster data shard` have one"
        raise UsageError(f"job {job_id} has no folder", made)
    return done.stdout.strip()


def state_folder(remote: Remote, job_id: str) -> str:
    """The folder where its programs keep their state. Raises UsageError if there is none."""
    task = job_json.parse(remote.run(["cat", f"{folder_of(remote, job_id)}/task.json"]).stdout) or {}
    folder = own_state(task, job_id) or f"{real_folder(remote, job_id)}/state"
    if remote.run(["test", "-d", folder]).exit_code != 0:
        raise UsageError(f"job {job_id} has no state: there is no folder {folder}", "it is created when the job starts")
    return folder


def own_state(task: dict[str, Any], job_id: str) -> str:
    """From task.json; empty for a job that is no task, whose state is in its folder. The same rule as in
    gpucluster_job/task/asked.py: each element of an array has its own."""
    state, (_, index) = str(task.get("state") or ""), arrays.array_of(job_id)
    if index is None or not state:
        return state
    in_task = state == f"{task['folder']}/state"
    return f"{task['folder']}/{index}/state" if in_task else f"{state}/{index}"


def current(remote: Remote, ended: int = 0, also: Iterable[str] = ()) -> list[Job]:
    """Jobs that have not ended; of those that ended within the last hour, the newest and those of these ids."""
    return queue.parse_jobs(remote.run(slurm.newest_argv(ended, also)).check("cannot list jobs").stdout)


def find(remote: Remote, job_id: str) -> Job | None:
    """None if Slurm does not know the job, or no longer."""
    number, index = arrays.array_of(job_id)
    done = remote.run(slurm.squeue_argv(number))
    if done.exit_code != 0 and "Invalid job id" in done.stderr:
        return None
    found = queue.parse_jobs(done.check(f"cannot query job {job_id}").stdout)
    if found and index is not None:
        return next((element for element in found[0].elements if element.job_id == job_id), None)
    return found[0] if found else None


def nodes(remote: Remote, partition: str | None = None) -> list[Node]:
    return slurm.parse_nodes(remote.run(slurm.sinfo_argv(partition)).check("cannot list nodes").stdout)


def past(remote: Remote, count: int = 20, also: Iterable[str] = ()) -> list[Past]:
    """The newest jobs with a folder, oldest first, and those of these ids."""
    program = Path(history.__file__).read_text(encoding="utf-8")
    argv = ["/usr/bin/python3", "-IS", "-c", program, remote.real(account.jobs()), str(count)]
    done = remote.run(argv, input=" ".join(also).encode()).check("cannot list job folders")
    return [Past(**json.loads(line)) for line in done.stdout.splitlines()]


def run_of(remote: Remote, job_id: str) -> str:
    """`run 2 of at most 21`, for a job that continues after its time limit; else empty."""
    return remote.run(["cat", f"{folder_of(remote, job_id)}/run.txt"]).stdout.strip()


def latest(remote: Remote, *, of_arrays: bool = False) -> str:
    """The id of the newest job, which verbs without a job ID mean; `of_arrays`: of the newest sweep or array. Raises
    UsageError."""
    found = [each for each in past(remote, NEWEST if of_arrays else 1) if each.elements or not of_arrays]
    if found:
        return found[-1].job_id
    if of_arrays:
        how = "`gpucluster submit --sweep lr=0.1,0.2 -- python train.py` submits one"
        raise UsageError(f"none of the {NEWEST} newest jobs is a sweep or an array", how)
    raise UsageError("there are no jobs yet", "`gpucluster submit -- python train.py` submits one")


def result(remote: Remote, job_id: str) -> dict[str, Any] | None:
    done = remote.run(["sh", "-c", _RESULT, "sh", folder_of(remote, job_id), job_id])
    found = job_json.parse(done.stdout) if done.exit_code == 0 else None
    if found and not isinstance(found.get("exit_code"), int):
        raise RemoteError("result.json cannot be read: it has no exit code, so the job's programs have changed it")
    if found and "first_failed" in found:
        return found | {"reason": _of_elements(found)}
    return {key: value for key, value in found.items() if key != "elements"} if found else found


def _of_elements(summary: dict[str, Any]) -> str:
    said, first = arrays.words(summary["elements"]), summary["first_failed"]
    return f"{said}; {first['job_id']}: {Ending('FAILED', first['result']).reason}" if first else said


def require(remote: Remote, job_id: str) -> Job | None:
    """The job in Slurm, if Slurm still knows it. Raises UsageError if it never existed."""
    job = find(remote, job_id)
    if job is None and not has_folder(remote, job_id):
        ownership.refuse_anothers(remote, job_id)
        raise UsageError(f"there is no job {job_id}", "`gpucluster jobs` lists them")
    return job


def has_folder(remote: Remote, job_id: str) -> bool:
    """False for a job of somebody's own sbatch, and for another user's."""
    return remote.run(["test", "-d", folder_of(remote, job_id)]).exit_code == 0


def require_folder(remote: Remote, job_id: str) -> Job | None:
    """As `require`. Raises UsageError also if another user has the job's folder."""
    job = require(remote, job_id)
    if job and not has_folder(remote, job_id):
        ownership.refuse_anothers(remote, job_id)
    return job


def first_node(remote: Remote, job_id: str) -> str:
    """The node of its script and its rank 0. Raises UsageError if the job has no nodes now."""
    job = require(remote, job_id)
    if not (job and job.phase == "running"):
        state = describe(job) if job else f"job {job_id} has ended"
        raise UsageError(f"{state}: it has no nodes now", "`gpucluster jobs` lists the running jobs")
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
        """Empty if the state says everything."""
        reason = str(self.result.get("reason") or "")
        if not self.failed_rank:
            return reason
        node = self.result.get("failed_node")
        return f"{self.failed_rank} on {node} exited with code {self.result.get('exit_code')}: {reason}"

    @property
    def failed_rank(self) -> str:
        """Empty if no rank is known to have failed first."""
        rank = self.result.get("failed_rank")
        return f"rank {rank}" if isinstance(rank, int) else rank or ""  # a server, a scheduler, a chief

    @property
    def failed_label(self) -> str:
        """What the lines of this rank begin with in the log."""
        return f"[{self.result['failed_rank']} {self.result.get('failed_node')}] " if self.failed_rank else ""

    def check(self, job_id: str) -> None:
        """Raises JobFailedError."""
        if self.failed:
            many = "elements" in self.result
            shows = f"results {job_id}` lists its elements" if many else f"logs {job_id}` shows its log"
            raise JobFailedError(self.sentence(job_id), f"`gpucluster {shows}")

    def sentence(self, job_id: str) -> str:
        said = f"job {job_id} {slurm.job_state(self.state).meaning}"
        return f"{said}: {self.reason}" if self.reason and (self.failed or self.reason == NO_RESULT) else said


def ending(remote: Remote, job_id: str) -> Ending | None:
    """None until the job ends. Slurm's state decides while Slurm knows the job, but Slurm knows nothing of exports."""
    job = find(remote, job_id)
    if job and job.phase in ("waiting", "running"):
        return None
    found = result(remote, job_id)
    if not found and (last := last_of(remote, job_id)):
        return _of_shards(remote, job, last)
    lacks = {} if found else _unmade(remote, job_id) or _in_vain(remote, job_id)
    if job:
        state = slurm.base_state(job.state)
        if state == "COMPLETED" and not found and has_folder(remote, job_id):
            lacks = lacks or {"reason": NO_RESULT}
        return Ending("FAILED" if state == "COMPLETED" and found and found["exit_code"] else state, found or lacks)
    if lacks:
        return Ending("CANCELLED", lacks)
    return Ending("COMPLETED" if found["exit_code"] == 0 else "FAILED", found) if found else _lost(remote, job_id)


def _of_shards(remote: Remote, job: Job | None, last: str) -> Ending | None:
    """A job of `data shard --array` before the last one, which has the result of all."""
    if job is None:
        return ending(remote, last)
    state = slurm.base_state(job.state)
    return Ending(state, {} if state == "COMPLETED" else {"reason": f"`gpucluster why {last}` says why"})


def _lost(remote: Remote, job_id: str) -> Ending:
    """slurmctld saves jobs every 5 s at most (SAVE_MAX_WAIT in state_save.c), so it may not know a new one after its
    own end. It forgets a cancelled one after MinJobAge."""
    unknown, folder = "Slurm no longer knows it", folder_of(remote, job_id)
    if remote.run(["sh", "-c", '[ -d "$1" ] && [ ! -e "$1/started" ]', "sh", folder]).exit_code == 0:
        why = "it was cancelled, or slurmctld was killed within seconds of its submission"
        return Ending("FAILED", {"reason": f"{unknown}, and it never started: {why}"})
    return Ending("NODE_FAIL", {"reason": f"{unknown} and it has no result: its first node was probably lost"})


def staging(remote: Remote, job_id: str) -> dict[str, Any]:
    """The progress of its data from or to S3: stage (in | out), path, done, total. Empty if no data is moved."""
    done = remote.run(["cat", f"{folder_of(remote, job_id)}/staging.json"])
    return (job_json.parse(done.stdout) or {}) if done.exit_code == 0 else {}


def _unmade(remote: Remote, job_id: str) -> dict[str, Any]:
    """A result with the reason, for a job that never started because its environment could not be built."""
    done = remote.run(["sh", "-c", _UNMADE, "sh", folder_of(remote, job_id), ENVIRONMENTS])
    return {"reason": done.stdout.strip()} if done.stdout.strip() else {}


def waits(remote: Remote, job_id: str) -> tuple[Wait, ...]:
    """The runs of other jobs that it depends on."""
    done = remote.run(["cat", f"{folder_of(remote, job_id)}/waits"])
    return parse_waits(done.stdout) if done.exit_code == 0 else ()


def unfinished(remote: Remote, job_id: str) -> list[tuple[str, str]]:
    """The runs that it still waits for, with their state."""
    queued = {wait.job_id: wait.what for wait in waits(remote, job_id) if wait.queued}
    found = [(what, find(remote, number)) for number, what in queued.items()]
    return [(what, describe(job)) for what, job in found if job and job.phase in ("waiting", "running")]


def _in_vain(remote: Remote, job_id: str) -> dict[str, Any]:
    """A result with the reason, for a job that never started because one that it waited for failed. Slurm cancels
    such a job (sbatch --kill-on-invalid-dep)."""
    for wait in waits(remote, job_id):
        found = ending(remote, wait.job_id) if wait.queued else None
        if found and found.failed:
            what = "" if wait.what == f"job {wait.job_id}" else f"{wait.what} failed, which it waited for: "
            return {"reason": f"{what}{found.sentence(wait.job_id)}"}
    return {}


class Watch:
    """Whether a job has ended. Callers may ask often: it calls Slurm only every POLL_S, and reports changes."""

    def __init__(self, remote: Remote, job_id: str, tell: Callable[[str], None], patience: Patience) -> None:
        self._remote, self._job_id, self._tell, self._patience = remote, job_id, tell, patience
        self._asked, self._told, self._silent = 0.0, "", silent.Watch(remote)

    def ended(self) -> bool:
        if time.monotonic() - self._asked < POLL_S:
            return False
        try:
            job = find(self._remote, self._job_id)
            ended = job is None or job.phase == "done"
            said = "" if job is None or ended else "; ".join([describe(job), *self._causes(job)])
        except CloudError as error:
            self._patience.outlast(error)
            return False
        self._asked = time.monotonic()
        self._patience.answered()
        if not ended:
            self._tell_once(said)
        return ended

    def _causes(self, job: Job) -> list[str]:
        return [*causes.of(self._remote, job), *self._silent.of(job)]

    def _tell_once(self, text: str) -> None:
        if text != self._told:
            self._told = text
            self._tell(text)


def describe(job: Job) -> str:
    """One line: its state, and why it waits."""
    state = slurm.job_state(job.state)
    if job.elements:
        said = f"job {job.job_id}: {arrays.words(arrays.counts(job.elements))}"
        return f"{said} ({slurm.pending_reason(job.reason)})" if " pending" in said else said
    if slurm.base_state(job.state) == "PENDING":
        return f"job {job.job_id} {state.meaning}: {slurm.pending_reason(job.reason)}"
    where = f" on {job.node_list}" if job.node_list else ""
    return f"job {job.job_id} {state.meaning}{where}"


def wait(remote: Remote, job_id: str, tell: Callable[[str], None]) -> None:
    """Reports changes of state until the job ends, without its log."""
    watch = Watch(remote, job_id, tell, Patience(job_id, tell))
    while not watch.ended():
        time.sleep(POLL_S / 10)


def is_array(remote: Remote, job_id: str) -> bool:
    return remote.run(["test", "-e", f"{folder_of(remote, job_id)}/runs/{job_id}"]).exit_code == 0
