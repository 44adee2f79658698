"""`gpucluster why`: why a job waits, is slow, or how it ended, with the evidence and what to do."""

from __future__ import annotations

import json

import click

from gpucluster.cli.frame import target
from gpucluster.cli.frame.connection import head
from gpucluster.cli.frame.context import CliContext
from gpucluster.following import explain, jobs


@click.command()
@click.argument("job_id", required=False, type=target.any_job)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object to stdout.")
@click.pass_obj
def command(context: CliContext, job_id: str | None, as_json: bool) -> int:
    """Explain why the job JOB_ID, or the newest job, is pending or slow, or how it ended."""
    if training := target.sagemaker(context, job_id):
        from gpucluster.sagemaker.following import explain as on_sagemaker
        from gpucluster.sagemaker.following import jobs as training_jobs

        _print(on_sagemaker.of(training, job_id or training_jobs.newest(training)), as_json=as_json)
        return 0
    config = None if context.chosen_context() else context.load()
    with head(context, config) as remote:
        found = explain.of(remote, config, job_id or jobs.latest(remote))
    _print(found, as_json=as_json)
    return 0


def _print(found: explain.Explanation, *, as_json: bool) -> None:
    click.echo(json.dumps(entry(found)) if as_json else "\n".join(found.lines))


def entry(found: explain.Explanation) -> dict[str, object]:
    own = {"job_id": found.job_id, "state": found.state, "explanation": found.lines}
    return {**own, "causes": found.causes, "advice": found.advice}
