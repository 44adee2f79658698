"""`gpucluster cancel`: ends a job."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from gpucluster.cli.frame import target
from gpucluster.cli.frame.connection import head
from gpucluster.cli.frame.context import CliContext
from gpucluster.errors import RemoteError
from gpucluster.following import cancelling, jobs
from gpucluster.head import slurm
from gpucluster.head.remote import Remote

if TYPE_CHECKING:
    from gpucluster.sagemaker.following.account import Account


@click.command()
@click.argument("job_ids", nargs=-1, required=True, type=target.any_job, metavar="JOB_ID...")
@click.pass_obj
def command(context: CliContext, job_ids: tuple[str, ...]) -> int:
    """Cancel pending or running jobs. An ID such as 29_3 names one element of an array.

    If one of several IDs is unknown, none is cancelled. The last line on stdout is JSON, also after an error.

    SageMaker sends SIGTERM to a training job and kills it 120 s later; its output is uploaded and billed until then.
    """
    cancelled: list[str] = []
    places = {job_id: target.sagemaker(context, job_id) for job_id in job_ids}
    try:
        _stop({job_id: place for job_id, place in places.items() if place}, cancelled)
        if numbers := [job_id for job_id, place in places.items() if not place]:
            with head(context) as remote:
                found = {job_id: jobs.require(remote, job_id) for job_id in numbers}
                _cancel(remote, found, cancelled)
    finally:
        click.echo(json.dumps({"cancelled": cancelled}))
    return 0


def _stop(places: Mapping[str, Account], cancelled: list[str]) -> None:
    """Stops each training job, also of a sweep, that has not ended, and adds it to `cancelled`. Raises AwsError,
    UsageError."""
    from gpucluster.sagemaker.following import jobs as training_jobs
    from gpucluster.sagemaker.following import members
    from gpucluster.sagemaker.following.training import STOP_S

    found = {name: account for asked, account in places.items() for name in members.expanded(account, asked)}
    for name, account in found.items():
        if not training_jobs.stop(account, name):
            click.echo(f"job {name} has already ended", err=True)
            continue
        cancelled.append(name)
        click.echo(f"job {name} is being stopped: its ranks have {STOP_S} s, then it is killed", err=True)


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
