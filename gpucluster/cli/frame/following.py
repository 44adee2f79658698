"""Showing a job's log until the job ends or the user has seen enough."""

from __future__ import annotations

import json
from typing import Any

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
        again = f"`gpucluster logs -f {job_id}` follows it again, `gpucluster cancel {job_id}` cancels it"
        tell(f"\ndetached: job {job_id} continues; {again}")
        return None
    ending = jobs.ending(remote, job_id)
    tell(f"job {job_id} {'completed' if ending and not ending.failed else 'has ended'}")
    return ending


def finish(remote: Remote, job_id: str, line: dict[str, Any], *, to_end: bool) -> None:
    """Prints the line of JSON of a job that was submitted; `to_end`: after its log, with what became of it. Raises
    JobFailedError."""
    if not to_end:
        click.echo(json.dumps(line))
        return
    ending = follow(remote, job_id)
    outcome = {"state": ending.state, "result": ending.result} if ending else {"state": "DETACHED"}
    click.echo(json.dumps(line | outcome))
    if ending:
        ending.check(job_id)
