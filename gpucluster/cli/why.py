"""`gpucluster why`: why a job waits, or how it ended, with the evidence."""

from __future__ import annotations

import json

import click

from gpucluster.cli.frame.connection import head
from gpucluster.cli.frame.context import CliContext
from gpucluster.cli.frame.job_id import job_id as job_number
from gpucluster.following import causes, data_wait, jobs, logs, ownership, silent, topology, why
from gpucluster.head import slurm
from gpucluster.head.remote import Remote
from gpucluster.head.slurm import Job

LOG_LINES = 15


@click.command()
@click.argument("job_id", required=False, type=job_number)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object to stdout.")
@click.pass_obj
def command(context: CliContext, job_id: str | None, as_json: bool) -> int:
    """Explain why the job JOB_ID, or the newest job, is pending, or how it ended."""
    with head(context) as remote:
        job_id = job_id or jobs.latest(remote)
        lines = explain(remote, job_id)
    click.echo(json.dumps({"job_id": job_id, "explanation": lines}) if as_json else "\n".join(lines))
    return 0


def explain(remote: Remote, job_id: str) -> list[str]:
    job = jobs.require(remote, job_id)
    user = ownership.another(remote, job_id) if job and not jobs.has_folder(remote, job_id) else ""
    if job and user:
        return [jobs.describe(job), *causes.of(remote, job), ownership.words(job_id, user)]
    if job and job.phase != "done":
        nodes, staging = jobs.nodes(remote, job.partition), jobs.staging(remote, job_id)
        starting = causes.of(remote, job) if slurm.job_state(job.state).starts else []
        waits = [f"it waits for {what}: {state}" for what, state in jobs.unfinished(remote, job_id)]
        waits += silent.of(remote, job)
        waits += causes.quiet(remote, job, jobs.folder_of(remote, job_id))
        waits += [*data_wait.so_far(remote, job), *where(remote, job)]
        run = jobs.run_of(remote, job_id)
        return [*why.waiting(job, nodes, staging, [*starting, *waits]), *([f"this is {run}"] if run else [])]
    ending = jobs.ending(remote, job_id)
    if ending is None:
        return [f"job {job_id} has just started again: run `gpucluster why` once more"]
    return list(why.ended(job_id, ending, logs.last_lines(remote, job_id, ending, LOG_LINES)))


def where(remote: Remote, job: Job) -> list[str]:
    """For a running job of several nodes: on how many switches they are."""
    if job.phase != "running" or job.nodes < 2:
        return []
    nodes = topology.nodes_of(remote, [job]).get(job.job_id, [])
    return list(topology.spread(nodes, topology.of(remote), job.partition))
