"""Shows a job's log until the job ends or the user detaches."""

from __future__ import annotations

import json
from typing import Any

import click

from gpucluster.cli.frame import screen
from gpucluster.cli.frame.columns import columns
from gpucluster.following import arrays, jobs, logs
from gpucluster.following.logs import Selection
from gpucluster.following.patience import Patience
from gpucluster.head.remote import Remote


def tell(text: str) -> None:
    """Prints progress to stderr, so that stdout has only the log."""
    click.echo(text, err=True)


def follow(remote: Remote, job_id: str, selection: Selection = logs.FOLDED) -> jobs.Ending | None:
    """Prints the log as it grows; for an array, which has no log, its table at the end. None if the user detached
    with Ctrl-C: the job continues."""
    is_array = "_" not in job_id and jobs.is_array(remote, job_id)
    try:
        if is_array:
            jobs.wait(remote, job_id, tell)
            click.echo("\n".join(columns(arrays.table(arrays.elements(remote, job_id)))))
        else:
            for line in logs.follow(remote, job_id, tell, selection):
                click.echo(line, file=screen.of_logs())
        ending = Patience(job_id, tell).ask(lambda: jobs.ending(remote, job_id))
    except KeyboardInterrupt:
        again = f"`gpucluster logs -f {job_id}` follows it again, `gpucluster cancel {job_id}` cancels it"
        tell(f"\ndetached: job {job_id} continues; {again}")
        return None
    tell(f"job {job_id} {'completed' if ending and not ending.failed else 'has ended'}")
    return ending


def finish(remote: Remote, job_id: str, line: dict[str, Any], *, to_end: bool) -> None:
    """Prints the JSON line of a submitted job; with `to_end`, after its log and with its outcome. Raises
    JobFailedError."""
    if not to_end:
        click.echo(json.dumps(line))
        return
    ending = follow(remote, job_id)
    outcome = {"state": ending.state, "result": ending.result} if ending else {"state": "DETACHED"}
    click.echo(json.dumps(line | outcome))
    if ending:
        ending.check(job_id)
