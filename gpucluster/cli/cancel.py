"""`gpucluster cancel`: ends a job."""

from __future__ import annotations

import json
from collections.abc import Mapping

import click

from gpucluster.cli.frame.connection import head
from gpucluster.cli.frame.context import CliContext
from gpucluster.cli.frame.job_id import job_id as job_number
from gpucluster.errors import RemoteError
from gpucluster.following import cancelling, jobs
from gpucluster.head import slurm
from gpucluster.head.remote import Remote


@click.command()
@click.argument("job_ids", nargs=-1, required=True, type=job_number, metavar="JOB_ID...")
@click.pass_obj
def command(context: CliContext, job_ids: tuple[str, ...]) -> int:
    """Cancel pending or running jobs. An ID such as 29_3 names one element of an array.

    If one of several IDs is unknown, none is cancelled. The last line on stdout is JSON, also after an error.
    """
    cancelled: list[str] = []
    try:
        with head(context) as remote:
            found = {job_id: jobs.require(remote, job_id) for job_id in job_ids}
            _cancel(remote, found, cancelled)
    finally:
        click.echo(json.dumps({"cancelled": cancelled}))
    return 0


def _cancel(remote: Remote, found: Mapping[str, slurm.Job | None], cancelled: list[str]) -> None:
    """Cancels each that has not ended, and adds it to `cancelled`. Raises the first error at the end."""
    errors: list[RemoteError] = []
    for job_id, job in found.items():
        if job is None or job.phase == "done":
            click.echo(f"job {job_id} has already ended", err=True)
            continue
        try:
            cancelling.cancel(remote, job_id)
        except RemoteError as error:
            errors.append(error)
            continue
        cancelled.append(job_id)
        click.echo(f"job {job_id} cancelled", err=True)
    if errors:
        raise errors[0]
