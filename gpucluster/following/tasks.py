"""The tasks of a project, each with its newest job and the runs that this job depends on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpucluster import account
from gpucluster.errors import UsageError
from gpucluster.following import jobs
from gpucluster.following.jobs import Past
from gpucluster.head import slurm
from gpucluster.head.remote import Remote
from gpucluster.head.slurm import Job
from gpucluster.job.chain import parse_waits
from gpucluster.meant import did_you_mean

# for each task: its name, the job's id, and the runs that it depends on
_TASKS = """
cd "$1" 2>/dev/null || exit 0
[ -d "$2" ] || { ls; exit 3; }
cd "$2"
for task in *; do
  [ -e "$task/job" ] || continue
  read -r id folder <"$task/job"
  printf 'task\\t%s\\t%s\\n' "$task" "$id"
  cat "$3/$folder/waits" 2>/dev/null || :
done
"""


@dataclass(frozen=True)
class Last:
    """The newest job of a task."""

    name: str
    job_id: str
    after: tuple[str, ...]
    """Names of the project's tasks that it depends on."""
    past: Past

    def ending(self, job: Job | None) -> jobs.Ending:
        """`job`: None if Slurm has forgotten it."""
        forgotten = "COMPLETED" if self.past.state == "COMPLETED" else "FAILED"
        summary = {"reason": self.past.reason} if self.past.elements else self.past.result
        return jobs.Ending(slurm.base_state(job.state) if job else forgotten, summary or {})

    def describe(self, job: Job | None) -> str:
        """job: None if Slurm has forgotten it."""
        if job and job.phase in ("waiting", "running"):
            return jobs.describe(job)
        return self.ending(job).sentence(self.job_id)


def of_project(remote: Remote, project: str) -> dict[str, Last]:
    """Each task after those that it depends on. Raises UsageError if there is no such project."""
    tasks, jobs_folder = remote.real(account.tasks()), remote.real(account.jobs())
    done = remote.run(["sh", "-c", _TASKS, "sh", tasks, project, jobs_folder])
    if done.exit_code == 3 or not done.stdout:
        known = done.stdout.split()
        hint = did_you_mean(project, known, f"known: {', '.join(known)}" if known else "a job with a name is a task")
        raise UsageError(f"there is no task of a project {project}", hint)
    asked: dict[str, tuple[str, tuple[str, ...]]] = {}
    for block in done.check("cannot list the tasks").stdout.split("task\t")[1:]:
        first, _, waits = block.partition("\n")
        name, job_id = first.split("\t")
        labels = (wait.what.removeprefix("the task ") for wait in parse_waits(waits))
        after = tuple(label.removeprefix(f"{project}/") for label in labels)
        asked[name] = (job_id, after)
    past = {each.job_id: each for each in jobs.past(remote, 0, (job_id for job_id, _ in asked.values()))}
    return _ordered({
        name: Last(name, job_id, after, past.get(job_id, Past(job_id, "", None)))
        for name, (job_id, after) in asked.items()
    })  # fmt: skip


def _ordered(found: Mapping[str, Last]) -> dict[str, Last]:
    ordered: dict[str, Last] = {}

    def add(name: str, parents: tuple[str, ...]) -> None:
        for each in found[name].after:
            if each in found and each not in (*parents, name):
                add(each, (*parents, name))
        ordered.setdefault(name, found[name])

    for name in found:
        add(name, ())
    return ordered
