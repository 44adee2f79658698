"""`gpucluster results`: the state, values and metrics of each element of a sweep or an array."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from gpucluster.cli.frame.columns import columns
from gpucluster.cli.frame.connection import head
from gpucluster.cli.frame.context import CliContext
from gpucluster.cli.frame.job_id import sweep_id
from gpucluster.errors import UsageError

if TYPE_CHECKING:
    from gpucluster.config import ClusterConfig
    from gpucluster.following import arrays
    from gpucluster.head.remote import Remote
    from gpucluster.sagemaker.following.account import Account


@click.command()
@click.argument("job_id", required=False, type=sweep_id)
@click.option("--json", "form", flag_value="json", help="Print one JSON list to stdout.")
@click.option("--csv", "form", flag_value="csv", help="Print comma-separated values to stdout.")
@click.pass_obj
def command(context: CliContext, job_id: str | None, form: str | None) -> int:
    """Show a table of the sweep or array JOB_ID, or of the newest one: the values, state and metrics of each element.

    `metrics` in job.yaml, or `submit --metrics`, names the values that are read from the log, and the program may log
    others; the last one counts. If an element was run again, the table has its newest run.
    """
    from gpucluster.cli.frame import target
    from gpucluster.following import arrays, jobs

    if training := target.sagemaker(context, job_id):
        found, usd = _of_sagemaker(training, job_id)
        _print(found, usd, form)
        return 0
    config = None if context.chosen_context() else context.load()
    with head(context, config) as remote:
        job_id = job_id or jobs.latest(remote, of_arrays=True)
        arrays.require(remote, job_id)
        found = arrays.elements(remote, job_id)
        usd = _prices(remote, config, found) if config else {}
    _print(found, usd, form)
    return 0


def _of_sagemaker(training: Account, name: str | None) -> tuple[list[arrays.Element], dict[str, float | None]]:
    """Raises AwsError, UsageError."""
    from gpucluster.cli.frame import training_sweep
    from gpucluster.sagemaker.following import members

    if name is None:
        raise UsageError("name the sweep on SageMaker", "`gpucluster submit` has printed it: digits-20261129-102400")
    found = members.described(training, name)
    return training_sweep.elements(found), training_sweep.prices(found, training.target.region)


def _print(found: list[arrays.Element], usd: dict[str, float | None], form: str | None) -> None:
    from gpucluster.following import arrays

    table = arrays.table(found, usd)
    if form == "json":
        click.echo(json.dumps([_entry(each) | ({"usd": usd.get(each.job_id, 0.0)} if usd else {}) for each in found]))
    elif form == "csv":
        click.echo(_csv(table), nl=False)
    else:
        click.echo("\n".join(columns(table)))


def _prices(remote: Remote, config: ClusterConfig, found: list[arrays.Element]) -> dict[str, float | None]:
    """Job id of an element -> what it has cost. Empty if the cluster does not account for its jobs."""
    from gpucluster.errors import CloudError
    from gpucluster.following import cost

    numbers = {each.job_id.partition("_")[0] for each in found}
    try:
        costs = cost.so_far(remote, config, numbers, elements=True)
    except CloudError:
        return {}
    return {each.job_id: None if each.usd is None else round(each.usd, 2) for each in costs}


def _entry(element: arrays.Element) -> dict[str, object]:
    own = {"index": element.index, "job_id": element.job_id, "parameters": element.parameters, "state": element.state}
    return {**own, "metrics": element.metrics, "reason": element.reason, "result": element.result or None}


def _csv(table: list[list[str]]) -> str:
    import csv
    import io

    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(table)
    return text.getvalue()
