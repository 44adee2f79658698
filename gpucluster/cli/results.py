"""`gpucluster results`: the state, values and metrics of each element of a sweep or an array."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from gpucluster.cli.frame.columns import columns
from gpucluster.cli.frame.connection import head
from gpucluster.cli.frame.context import CliContext
from gpucluster.cli.frame.job_id import array_id

if TYPE_CHECKING:
    from gpucluster.following import arrays


@click.command()
@click.argument("job_id", required=False, type=array_id)
@click.option("--json", "form", flag_value="json", help="Print one JSON list to stdout.")
@click.option("--csv", "form", flag_value="csv", help="Print comma-separated values to stdout.")
@click.pass_obj
def command(context: CliContext, job_id: str | None, form: str | None) -> int:
    """Show a table of the sweep or array JOB_ID, or of the newest one: the values, state and metrics of each element.

    `metrics` in job.yaml, or `submit --metrics`, names the values that are read from the log, and the program may log
    others; the last one counts. If an element was run again, the table has its newest run.
    """
    from gpucluster.following import arrays, jobs

    with head(context) as remote:
        job_id = job_id or jobs.latest(remote, of_arrays=True)
        arrays.require(remote, job_id)
        found = arrays.elements(remote, job_id)
    if form == "json":
        click.echo(json.dumps([_entry(each) for each in found]))
    elif form == "csv":
        click.echo(_csv(arrays.table(found)), nl=False)
    else:
        click.echo("\n".join(columns(arrays.table(found))))
    return 0


def _entry(element: arrays.Element) -> dict[str, object]:
    own = {"index": element.index, "job_id": element.job_id, "parameters": element.parameters, "state": element.state}
    return {**own, "metrics": element.metrics, "reason": element.reason, "result": element.result or None}


def _csv(table: list[list[str]]) -> str:
    import csv
    import io

    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(table)
    return text.getvalue()
