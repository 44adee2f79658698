"""`gpucluster why`: why a job waits, is slow, or how it ended, with the evidence and what to do."""

from __future__ import annotations

import json

import click

from gpucluster.cli.frame.connection import head
from gpucluster.cli.frame.context import CliContext
from gpucluster.cli.frame.job_id import job_id as job_number
from gpucluster.following import explain, jobs


@click.command()
@click.argument("job_id", required=False, type=job_number)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object to stdout.")
@click.pass_obj
def command(context: CliContext, job_id: str | None, as_json: bool) -> int:
    """Explain why the job JOB_ID, or the newest job, is pending or slow, or how it ended."""
    config = None if context.chosen_context() else context.load()
    with head(context, config) as remote:
        found = explain.of(remote, config, job_id or jobs.latest(remote))
    click.echo(json.dumps(entry(found)) if as_json else "\n".join(found.lines))
    return 0


def entry(found: explain.Explanation) -> dict[str, object]:
    own = {"job_id": found.job_id, "state": found.state, "explanation": found.lines}
    return {**own, "causes": found.causes, "advice": found.advice}
