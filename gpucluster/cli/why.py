"""`gpucluster why`: why a job waits, or how it ended, with the evidence."""

from __future__ import annotations

import json

import click

from gpucluster.cli.frame.connection import head
from gpucluster.cli.frame.context import CliContext
from gpucluster.cli.frame.job_id import job_id as job_number
from gpucluster.following import causes, jobs, why
from gpucluster.head import slurm
from gpucluster.head.remote import Remote

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
    if job and job.phase != "done":
        nodes, staging = jobs.nodes(remote, job.partition), jobs.staging(remote, job_id)
        starting = causes.of(remote, job) if slurm.job_state(job.state).starts else []
        waits = [f"it waits for {what}: {state}" for what, state in jobs.unfinished(remote, job_id)]
        waits += causes.quiet(remote, job, f"{jobs.folder_of(job_id)}/log.txt")
        run = jobs.run_of(remote, job_id)
        return [*why.waiting(job, nodes, staging, [*starting, *waits]), *([f"this is {run}"] if run else [])]
    ending = jobs.ending(remote, job_id)
    if ending is None:
        return [f"job {job_id} has just started again: run `gpucluster why` once more"]
    tail = remote.run(["tail", "-n", str(LOG_LINES), jobs.log_file(remote, job_id)]).stdout.splitlines()
    return list(why.ended(job_id, ending, tail))
