"""Showing a job's log until the job ends or the user has seen enough."""

from __future__ import annotations

import click

from gpucluster.following import jobs
from gpucluster.head.remote import Remote


def tell(text: str) -> None:
    """Progress: to stderr, so that stdout is the log alone."""
    click.echo(text, err=True)


def follow(remote: Remote, job_id: str) -> jobs.Ending | None:
    """Prints the log as it grows. None where the user detached with Ctrl-C: the job goes on."""
    try:
        for line in jobs.follow(remote, job_id, tell):
            click.echo(line)
    except KeyboardInterrupt:
        again = f"`gpucluster logs -f {job_id}` follows it again, `gpucluster cancel {job_id}` ends it"
        tell(f"\ndetached: job {job_id} goes on; {again}")
        return None
    ending = jobs.ending(remote, job_id)
    tell(f"job {job_id} {'ended well' if ending and not ending.failed else 'has ended'}")
    return ending
