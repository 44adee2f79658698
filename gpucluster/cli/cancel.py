"""`gpucluster cancel`: ends a job."""

from __future__ import annotations

import json

import click

from gpucluster.cli.frame.connection import head
from gpucluster.cli.frame.context import CliContext
from gpucluster.cli.frame.job_id import job_id as job_number
from gpucluster.following import cancelling, jobs


@click.command()
@click.argument("job_ids", nargs=-1, required=True, type=job_number, metavar="JOB_ID...")
@click.pass_obj
def command(context: CliContext, job_ids: tuple[str, ...]) -> int:
    """Cancel pending or running jobs. An ID such as 29_3 names one element of an array.

    The last line on stdout is JSON.
    """
    cancelled = []
    with head(context) as remote:
        for job_id in job_ids:
            job = jobs.require(remote, job_id)
            if job is None or job.phase == "done":
                click.echo(f"job {job_id} has already ended", err=True)
                continue
            cancelling.cancel(remote, job_id)
            cancelled.append(job_id)
            click.echo(f"job {job_id} cancelled", err=True)
    click.echo(json.dumps({"cancelled": cancelled}))
    return 0
