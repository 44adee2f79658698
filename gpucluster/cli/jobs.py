"""`gpucluster jobs`: lists pending, running and ended jobs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from gpucluster import account
from gpucluster.cli.frame import target, tree
from gpucluster.cli.frame.columns import columns
from gpucluster.cli.frame.connection import head
from gpucluster.cli.frame.context import CliContext
from gpucluster.config import ClusterConfig
from gpucluster.errors import CloudError
from gpucluster.following import causes, cost, jobs, ownership, tasks
from gpucluster.head import arrays, slurm
from gpucluster.head.remote import Remote

if TYPE_CHECKING:
    from gpucluster.sagemaker.following.account import Account


@click.command()
@click.option(
    "-n",
    "--count",
    type=click.IntRange(min=0),
    default=20,
    metavar="N",
    help="Show the newest N jobs that have ended.  [default: 20]",
)
@click.option(
    "--project", metavar="NAME", help="Show a tree of this project's tasks instead, with the last job of each."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON list to stdout.")
@click.pass_obj
def command(context: CliContext, count: int, project: str | None, as_json: bool) -> int:
    """List all pending and running jobs and the newest that have ended, in order of their job IDs. Those on SageMaker
    follow, where a sagemaker.yaml is here."""
    if project:
        with head(context, context.layout().config) as remote:
            return _tree(remote, project, as_json)
    rows = _of_both(context, count)
    if as_json:
        click.echo(json.dumps(rows))
    elif rows:
        click.echo("\n".join(_table(rows)))
    else:
        click.echo("no jobs yet", err=True)
    return 0


def _of_both(context: CliContext, count: int) -> list[dict[str, Any]]:
    """If only one of the two targets answers, its jobs."""
    training = target.account(context)
    if training is None:
        return _of_cluster(context, count)
    asked: dict[str, Callable[[], list[dict[str, Any]]]] = {
        "the cluster": lambda: [row | {"target": "cluster"} for row in _of_cluster(context, count)],
        "SageMaker": lambda: _of_sagemaker(training, count),
    }
    if not target.has_cluster(context):
        return asked["SageMaker"]()
    rows, errors = list[dict[str, Any]](), list[CloudError]()
    for whose, ask in asked.items():
        try:
            rows += ask()
        except CloudError as error:
            errors.append(error)
            click.echo(f"warning: the jobs of {whose} are not listed: {error.message}", err=True)
    if len(errors) == len(asked):
        raise errors[0]
    return rows


def _of_sagemaker(training: Account, count: int) -> list[dict[str, Any]]:
    from gpucluster.sagemaker.following import jobs as training_jobs

    return [training_jobs.row(job, training.target.region) for job in training_jobs.listed(training, count)]


def _of_cluster(context: CliContext, count: int) -> list[dict[str, Any]]:
    config = context.layout().config
    with head(context, config) as remote:
        rows = shown(remote, count)
        if config.users:
            owners = ownership.owners(remote, [row["job_id"] for row in rows])
            rows = [row | {"user": owners.get(row["job_id"], account.user())} for row in rows]
        return rows if context.chosen_context() else priced(remote, config, rows)


def shown(remote: Remote, count: int) -> list[dict[str, Any]]:
    """All jobs that have not ended, and the `count` newest ended ones."""
    current = jobs.current(remote, count)
    live = [job for job in current if job.phase != "done"]
    waiting = causes.of_all(remote, [job for job in live if job.phase == "waiting"])
    rows = merged(current, jobs.past(remote, count, [job.job_id for job in current]), waiting)
    ended = [
        row["job_id"] for row in rows if slurm.job_state(row["state"]).phase == "done" or row["state"] == "UNKNOWN"
    ]
    hidden = set(ended[: len(ended) - count])
    return [row for row in rows if row["job_id"] not in hidden]


def priced(remote: Remote, config: ClusterConfig, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows with what each job has cost so far. As they are, if the cluster does not account for its jobs."""
    try:
        found = {each.job_id: each.usd for each in cost.so_far(remote, config, [row["job_id"] for row in rows])}
    except CloudError:
        return rows
    return [row | {"usd": _cents(found.get(row["job_id"], 0.0))} for row in rows] if found else rows


def _cents(usd: float | None) -> float | None:
    return None if usd is None else round(usd, 2)


def _tree(remote: Remote, project: str, as_json: bool) -> int:
    found = tasks.of_project(remote, project)
    known = {job.job_id: job for job in jobs.current(remote, also=[each.job_id for each in found.values()])}
    labels = {name: each.describe(known.get(each.job_id)) for name, each in found.items()}
    before = {name: each.after for name, each in found.items()}
    if as_json:
        rows = [
            {"task": name, "job_id": found[name].job_id, "description": labels[name], "after": before[name]}
            for name in found
        ]
        click.echo(json.dumps(rows))
    else:
        click.echo("\n".join(tree.lines(project, labels, before)))
    return 0


COLUMNS = {
    "job": "job_id",
    "target": "target",
    "user": "user",
    "name": "name",
    "state": "state",
    "nodes": "nodes",
    "time": "elapsed",
    "USD": "usd",
    "why": "reason",
}
"""Header -> key of a row."""


def merged(
    current: list[slurm.Job], past: list[jobs.Past], waiting: Mapping[str, Sequence[str]] | None = None
) -> list[dict[str, Any]]:
    """One entry for each job id, in order. Slurm's state overrides the folder's. waiting: job id -> why its nodes have
    not joined."""
    ended = {job.job_id: _ended(job) for job in past}
    found = ended | {job.job_id: live(job) for job in current}
    kinds = {job.job_id: job.kinds for job in past}
    for job_id, entry in found.items():
        if slurm.job_state(entry["state"]).phase == "done" and job_id in ended:
            entry["reason"] = ended[job_id]["reason"]
            # Slurm knows a program's exit code, but not whether the exports after it succeeded.
            if (entry["state"], ended[job_id]["state"]) == ("COMPLETED", "FAILED"):
                entry["state"] = "FAILED"
    for array in (job for job in current if job.elements and job.job_id in ended):
        both = arrays.together(arrays.kinds(array.elements), kinds[array.job_id])
        entry = found[array.job_id]
        entry["elements"] = arrays.counted(both.values())
        entry["reason"] = arrays.words(entry["elements"])
    for job in past:
        if job.run and slurm.job_state(found[job.job_id]["state"]).phase in ("waiting", "running"):
            found[job.job_id]["reason"] = "; ".join(filter(None, [job.run, found[job.job_id]["reason"]]))
    for job_id, whys in (waiting or {}).items():
        found[job_id]["reason"] = "; ".join(filter(None, [found[job_id]["reason"], *whys]))
    folders = {job.job_id: job.folder for job in past}
    return [entry | {"folder": folders.get(entry["job_id"])} for entry in sorted(found.values(), key=_order)]


def live(job: slurm.Job, whys: Sequence[str] = ()) -> dict[str, Any]:
    """whys: why its nodes have not joined."""
    waits = slurm.base_state(job.state) == "PENDING"
    elements = arrays.counts(job.elements)
    reason = arrays.words(elements) or (slurm.pending_reason(job.reason) if waits else "")
    return {
        "job_id": job.job_id,
        "name": job.name,
        "state": slurm.base_state(job.state),
        "partition": job.partition,
        "nodes": job.nodes,
        "node_list": job.node_list,
        "elapsed": job.elapsed,
        "reason": "; ".join(filter(None, [reason, *whys])),
        "slurm_reason": job.reason.strip("()"),
        "elements": elements,
    }


def _ended(job: jobs.Past) -> dict[str, Any]:
    result = job.result or {}
    return {
        "job_id": job.job_id,
        "name": job.folder.rpartition("/")[2].rsplit("-", 3)[0],
        "state": job.state,
        "nodes": result.get("nodes", 0),
        "node_list": ",".join(result.get("node_list", [])),
        "elapsed": "",
        "reason": job.reason,
        "elements": job.elements,
    }


def _order(entry: dict[str, Any]) -> tuple[int, str]:
    """By number: elements (7_2) and parts of heterogeneous jobs (7+1) next to their job."""
    digits = "".join(letter if letter.isdigit() else " " for letter in entry["job_id"]).split()
    return (int(digits[0]) if digits else 0, entry["job_id"])


def _table(rows: list[dict[str, Any]]) -> list[str]:
    """Whose a job is, only if the cluster has several users; what it has cost, only if that is accounted for; where it
    runs, only if it may be on SageMaker."""
    used = {header: key for header, key in COLUMNS.items() if any(key in row for row in rows)}
    return columns([[*used], *([_cell(key, row.get(key, "")) for key in used.values()] for row in rows)])


def _cell(key: str, value: Any) -> str:
    if key == "usd" and value != "":
        return "not known" if value is None else f"{value:.2f}"
    return str(value)
