"""`gpucluster logs`: a job's merged log, every line with its rank and node."""

from __future__ import annotations

import click

from gpucluster.cli.frame import following
from gpucluster.cli.frame.connection import head
from gpucluster.cli.frame.context import CliContext
from gpucluster.cli.frame.job_id import job_id as job_number
from gpucluster.following import jobs


@click.command()
@click.argument("job_id", required=False, type=job_number)
@click.option(
    "-f", "--follow", is_flag=True, help="Show the log until the job ends. Ctrl-C detaches; the job continues."
)
@click.pass_obj
def command(context: CliContext, job_id: str | None, follow: bool) -> int:
    """Show the log of the job JOB_ID, or of the newest job. Each line names the rank and the node that wrote it.

    With --follow the exit code is 4 if the job failed. Otherwise it is 0, also after Ctrl-C.
    """
    with head(context) as remote:
        job_id = job_id or jobs.latest(remote)
        jobs.require(remote, job_id)
        if not follow:
            click.echo(jobs.log(remote, job_id), nl=False)
        elif ending := following.follow(remote, job_id):
            ending.check(job_id)
    return 0
