"""Shows the log of a training job, once or until it ends."""

from __future__ import annotations

import json
from itertools import islice
from typing import Any

import click

from gpucluster.cli.frame import screen
from gpucluster.cli.frame.following import tell
from gpucluster.following.logs import FOLDED, Selection
from gpucluster.sagemaker.following import jobs, logs
from gpucluster.sagemaker.following.account import Account
from gpucluster.sagemaker.following.training import Training

_AT_ONCE = 500


def show(account: Account, name: str, selection: Selection) -> None:
    """Raises AwsError, UsageError."""
    found = logs.lines(account, name, selection)
    printed = False
    while several := list(islice(found, _AT_ONCE)):
        click.echo("\n".join(several), file=screen.of_logs())
        printed = True
    if not printed and not (job := jobs.describe(account, name)).ended:
        tell(f"job {name} {job.does}: no line yet")


def follow(account: Account, name: str, selection: Selection = FOLDED) -> Training | None:
    """Prints the log as it grows. None if the user detached with Ctrl-C: the job continues."""
    try:
        for line in logs.follow(account, name, tell, selection):
            click.echo(line, file=screen.of_logs())
        job = jobs.describe(account, name)
    except KeyboardInterrupt:
        again = f"`gpucluster logs -f {name}` follows it again, `gpucluster cancel {name}` stops it"
        tell(f"\ndetached: job {name} continues; {again}")
        return None
    tell(f"job {name} {'completed' if job.status == 'Completed' else 'has ended'}")
    return job


def finish(account: Account, name: str, line: dict[str, Any], *, to_end: bool) -> None:
    """Prints the JSON line of a submitted job; with `to_end`, after its log and with its outcome. Raises
    JobFailedError."""
    if not to_end:
        click.echo(json.dumps(line))
        return
    job = follow(account, name)
    click.echo(json.dumps(line | ({"state": job.state, "reason": job.doing(0)} if job else {"state": "DETACHED"})))
    if job:
        job.check()
