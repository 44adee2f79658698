"""Why a job waits, is slow, or how it ended: what its folder and Slurm say of it, and the causes that are known."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gpucluster.following import causes, data_wait, jobs, logs, ownership, silent, slowness, topology, usage, why
from gpucluster.following.jobs import Ending
from gpucluster.following.known import find
from gpucluster.following.known.cause import Found
from gpucluster.head import slurm
from gpucluster.head.remote import Remote
from gpucluster.head.slurm import Job, Node

if TYPE_CHECKING:
    from gpucluster.config import ClusterConfig

SHOWN_LINES = 15
NOTABLE_IDLE_SHARE = 0.3
READ_LINES = 60
"""How many lines of the failed rank: as many as its own process keeps (gpucluster_job/ranks/program.py)."""


@dataclass(frozen=True)
class Explanation:
    job_id: str
    state: str
    """pending, starting, running, slow, hung, dead, cancelled, completed or unknown."""
    headline: str
    sentences: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
    causes: tuple[str, ...] = ()
    """Their ids in the table of causes."""

    @property
    def lines(self) -> list[str]:
        return [self.headline, *self.sentences, *(f"what to do: {each}" for each in self.advice)]


def of(remote: Remote, config: ClusterConfig | None, job_id: str) -> Explanation:
    """`config`: None for a cluster that we did not build. Raises UsageError if there is no such job."""
    job = jobs.require(remote, job_id)
    user = ownership.another(remote, job_id) if job and not jobs.has_folder(remote, job_id) else ""
    if job and user:
        said = [*causes.of(remote, job), ownership.words(job_id, user)]
        return made(job_id, _state(job), [jobs.describe(job), *said], _waiting(remote, job))
    if job and job.phase != "done":
        return _unfinished(remote, job)
    ending = jobs.ending(remote, job_id)
    if ending is None:
        return Explanation(job_id, "unknown", f"job {job_id} has just started again: run `gpucluster why` once more")
    return _ended(remote, job_id, ending)


def _unfinished(remote: Remote, job: Job) -> Explanation:
    nodes, staging = jobs.nodes(remote, job.partition), jobs.staging(remote, job.job_id)
    said = causes.of(remote, job) if slurm.job_state(job.state).starts else []
    said += [f"it waits for {what}: {state}" for what, state in jobs.unfinished(remote, job.job_id)]
    said += silent.of(remote, job)
    quiet = causes.quiet(remote, job, jobs.folder_of(remote, job.job_id))
    waited = data_wait.so_far(remote, job)
    said += [*quiet, *waited, *where(remote, job)]
    lines = [*why.waiting(job, nodes, staging, said)]
    if run := jobs.run_of(remote, job.job_id):
        lines.append(f"this is {run}")
    slow = slowness.of(remote, job, jobs.folder_of(remote, job.job_id))
    found = [*_waiting(remote, job, nodes, said), *slow.found]
    starved = ("data-wait",) if data_wait.is_notable(waited) else ()
    idle = any(each.cause.id == "gpu-idle" for each in slow.found)
    state = "hung" if quiet and idle else "slow" if slow.found or starved else _state(job)
    explained = made(job.job_id, state, [*lines, *slow.lacks], found)
    return replace(explained, causes=(*explained.causes, *starved))


def _waiting(remote: Remote, job: Job, nodes: Sequence[Node] = (), said: Sequence[str] = ()) -> list[Found]:
    if slurm.base_state(job.state) == "PENDING":
        return find.pending(job, nodes if _needs(job, nodes) else ())
    return find.starting(said) if slurm.job_state(job.state).starts else []


def _needs(job: Job, nodes: Sequence[Node]) -> bool:
    """Whether the job waits for nodes that are out of service, and not only beside some."""
    asked = job.reason.strip("()").startswith(("ReqNodeNotAvail", "Nodes required", "NodeDown"))
    return asked or len([node for node in nodes if node.available]) < job.nodes


def _ended(remote: Remote, job_id: str, ending: Ending) -> Explanation:
    own = logs.last_lines(remote, job_id, ending, READ_LINES) if ending.failed else []
    lines = [*why.ended(job_id, ending, own[-SHOWN_LINES:]), *_idle(remote, job_id)]
    found = find.dead(ending, own) if ending.failed else []
    state = "completed" if not ending.failed else "hung" if _hung(found) else "dead"
    return made(job_id, "cancelled" if slurm.base_state(ending.state) == "CANCELLED" else state, lines, found)


def _idle(remote: Remote, job_id: str) -> list[str]:
    """Worth a look even if the job succeeded: an idle GPU costs as much as a busy one."""
    share = (usage.summary(remote, job_id) or {}).get("idle_share")
    return [f"its GPUs did nothing for {share:.0%} of its time"] if share and share >= NOTABLE_IDLE_SHARE else []


def _hung(found: Iterable[Found]) -> bool:
    return any(each.cause.state == "hung" for each in found)


def _state(job: Job) -> str:
    if slurm.base_state(job.state) == "PENDING":
        return "pending"
    return "starting" if slurm.job_state(job.state).starts else "running"


def made(job_id: str, state: str, lines: Sequence[str], found: Sequence[Found]) -> Explanation:
    """The causes come after the headline: what follows may be the log's last lines."""
    told = "\n".join(lines)
    said: list[str] = []
    for each in found:
        if each.cause.place == "job's reason":
            continue  # the headline has its meaning, and Slurm's own word follows
        said.append(each.sentence)
        if each.evidence and each.evidence not in told:
            said.append(f"  {each.evidence}")
    advice = dict.fromkeys(each.cause.advice.replace("{job}", job_id) for each in found)
    ids = dict.fromkeys(each.cause.id for each in found)
    return Explanation(job_id, state, lines[0], (*said, *lines[1:]), tuple(advice), tuple(ids))


def where(remote: Remote, job: Job) -> list[str]:
    """For a running job of several nodes: on how many switches they are."""
    if job.phase != "running" or job.nodes < 2:
        return []
    nodes = topology.nodes_of(remote, [job]).get(job.job_id, [])
    return list(topology.spread(nodes, topology.of(remote), job.partition))
