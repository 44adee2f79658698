"""`gpucluster logs`: a job's merged log, every line with its rank and node."""

from __future__ import annotations

import click

from gpucluster.cli.frame import following, screen
from gpucluster.cli.frame.connection import head
from gpucluster.cli.frame.context import CliContext
from gpucluster.cli.frame.job_id import job_id as job_number
from gpucluster.following import jobs, logs
from gpucluster.following.patience import Patience
from gpucluster.head.remote import Remote


@click.command()
@click.argument("job_id", required=False, type=job_number)
@click.option(
    "-f", "--follow", is_flag=True, help="Show the log until the job ends. Ctrl-C detaches; the job continues."
)
@click.pass_obj
def command(context: CliContext, job_id: str | None, follow: bool) -> int:
    """Show the log of the job JOB_ID, or of the newest job. Each line names the rank and the node that wrote it.

    With --follow the exit code is 4 if the job failed. Otherwise it is 0, also after Ctrl-C.
    """
    if follow:
        return _follow(context, job_id)
    with head(context) as remote:
        click.echo(logs.log(remote, _known(remote, job_id)), nl=False, file=screen.of_logs())
    return 0


def _follow(context: CliContext, job_id: str | None) -> int:
    """Also waits for a head node that does not answer yet. A context's login node must answer at once: ssh says in the
    same way that it is away and that it refuses the user."""
    try:
        if context.chosen_context():
            with head(context) as remote:
                return _shown(remote, _known(remote, job_id))
        patience = Patience("", following.tell)
        with head(context, patience=patience) as remote:
            return _shown(remote, patience.ask(lambda: _known(remote, job_id)))
    except KeyboardInterrupt:
        return 0


def _shown(remote: Remote, job_id: str) -> int:
    if ending := following.follow(remote, job_id):
        ending.check(job_id)
    return 0


def _known(remote: Remote, job_id: str | None) -> str:
    """Default: the newest job. Raises UsageError."""
    found = job_id or jobs.latest(remote)
    jobs.require_folder(remote, found)
    return found
