"""Submits the training jobs of a sweep, as many at a time as it may have, and shows their results."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from typing import Any

import click

from gpucluster.cli.frame.columns import columns
from gpucluster.cli.frame.following import tell
from gpucluster.errors import INTERRUPTED_EXIT_CODE, JobFailedError
from gpucluster.following import arrays
from gpucluster.following.patience import Patience
from gpucluster.job import JobSpec
from gpucluster.sagemaker import sweeps
from gpucluster.sagemaker.following import logs, members, money
from gpucluster.sagemaker.following.account import Account
from gpucluster.sagemaker.following.training import Training
from gpucluster.sagemaker.prepare import Prepared
from gpucluster.sagemaker.submission import Submitted

Found = dict[int, Training]


def run(
    account: Account,
    name: str,
    whole: JobSpec,
    jobs: Sequence[Prepared],
    submit: Callable[[Prepared], Submitted],
    *,
    follow: bool,
) -> int:
    """Stays until the last one is submitted; with `follow`, until all have ended. Raises AwsError."""
    done: list[Submitted] = []
    most = whole.elements_at_once
    tell(f"sweep {name}: {len(jobs)} training jobs{f', {most} at a time' if most else ''}")
    line: dict[str, Any] = {"job_id": name, "name": whole.name, "elements": len(jobs)}
    try:
        for each in sweeps.submit_all(account, name, jobs, most, submit, tell, time.sleep):
            done.append(each)
            tell(f"{len(done)}/{len(jobs)} job {each.job}{' has already succeeded' if each.skipped else ''}")
        if follow:
            _wait(account, name)
    except KeyboardInterrupt:
        left = f", and {len(jobs) - len(done)} were not submitted" if len(done) < len(jobs) else ""
        again = "the same command submits those that have not succeeded"
        tell(f"\ndetached: jobs that were submitted continue{left}; {again}")
        click.echo(json.dumps(line | {"jobs": [each.job for each in done]}))
        return INTERRUPTED_EXIT_CODE
    failed = follow and _show(account, name, [each for each in done if not each.skipped])
    click.echo(json.dumps(line | {"jobs": [each.job for each in done]}))
    return JobFailedError.exit_code if failed else 0


def _wait(account: Account, name: str) -> None:
    patience = Patience(name, tell, who="AWS")
    while patience.ask(lambda: members.unfinished(account, name)):
        time.sleep(logs.pause_s())


def _show(account: Account, name: str, submitted: Sequence[Submitted]) -> bool:
    """Whether any failed."""
    if not submitted:
        return False
    found = members.described(account, name)
    click.echo("\n".join(columns(table(found, account.target.region))))
    return any(job.status != "Completed" for job in found.values())


def elements(found: Found) -> list[arrays.Element]:
    return [members.element(index, job) for index, job in found.items()]


def prices(found: Found, region: str) -> dict[str, float | None]:
    costs = {job.name: money.of(job, region, time.time()).usd for job in found.values()}
    return {name: None if usd is None else round(usd, 2) for name, usd in costs.items()}


def table(found: Found, region: str) -> list[list[str]]:
    return arrays.table(elements(found), prices(found, region))
