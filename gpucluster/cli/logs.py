"""`gpucluster logs`: a job's merged log, every line with its rank and node."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from gpucluster.cli.frame import following, screen, target
from gpucluster.cli.frame.connection import head
from gpucluster.cli.frame.context import CliContext
from gpucluster.cli.frame.moment import moment
from gpucluster.errors import UsageError
from gpucluster.following import jobs, logs
from gpucluster.following.logs import Selection
from gpucluster.following.patience import Patience
from gpucluster.head.remote import Remote

if TYPE_CHECKING:
    from gpucluster.sagemaker.following.account import Account

_AT_ONCE = 500
"""Lines. Printing each alone takes ten times as long."""


def _rank(value: str) -> str:
    if not re.fullmatch(r"\d+|scheduler|chief|server-\d+", value, re.ASCII):
        raise click.BadParameter(f"must be a rank such as 0, or scheduler, chief, server-0, got {value!r}")
    return value


@click.command()
@click.argument("job_id", required=False, type=target.any_job)
@click.option(
    "-f", "--follow", is_flag=True, help="Show the log until the job ends. Ctrl-C detaches; the job continues."
)
@click.option("--rank", metavar="RANK", type=_rank, help="Only lines of this rank.")
@click.option("--node", metavar="NODE", help="Only lines of the ranks on this node.")
@click.option("--since", metavar="TIME", type=moment, help="Only lines since then: 10m ago, 14:02 (UTC).")
@click.option("--until", metavar="TIME", type=moment, help="Only lines until then.")
@click.option("-n", "--tail", metavar="N", type=click.IntRange(0), help="Only the last N lines of those chosen.")
@click.option("--grep", metavar="RE", help="Only lines that match this expression of `grep -E`.")
@click.option(
    "--run", metavar="N", type=click.IntRange(1), help="Only run N of a job that was requeued; 1 is the first."
)
@click.option("--all", "launcher", is_flag=True, help="Show all lines of a launcher's report about failed ranks.")
@click.option("--boot", is_flag=True, help="Show the boot logs of the job's nodes instead; --node chooses one.")
@click.pass_obj
def command(context: CliContext, /, job_id: str | None, follow: bool, boot: bool, **selection: Any) -> int:
    """Show the log of the job JOB_ID, or of the newest job. Each line names the rank and the node that wrote it.

    The head node chooses the lines, and only those travel. With --follow the exit code is 4 if the job failed.
    Otherwise it is 0, also after Ctrl-C. The log of a training job on SageMaker comes from CloudWatch.
    """
    asked = Selection(**selection)
    if training := target.sagemaker(context, job_id):
        _of_training_job(training, job_id, asked, follow=follow, boot=boot)
        return 0
    if boot:
        if follow or asked != Selection(node=asked.node):
            raise UsageError("--boot takes no other option than --node", "pipe it into grep or tail")
        return _boot(context, job_id, asked.node)
    if follow:
        return _follow(context, job_id, asked)
    with head(context) as remote:
        _print(logs.lines(remote, _known(remote, job_id), asked))
    return 0


def _of_training_job(training: Account, name: str | None, asked: Selection, *, follow: bool, boot: bool) -> None:
    """Raises AwsError, JobFailedError, UsageError."""
    from gpucluster.cli.frame import training_log
    from gpucluster.sagemaker.following import jobs as training_jobs

    if boot:
        raise UsageError("--boot: SageMaker shows no boot logs of its hosts", "`gpucluster why` shows what it does")
    name = name or training_jobs.newest(training)
    if not follow:
        training_log.show(training, name, asked)
    elif job := training_log.follow(training, name, asked):
        job.check()


def _print(lines: Iterator[str]) -> None:
    while several := list(islice(lines, _AT_ONCE)):
        click.echo("\n".join(several), file=screen.of_logs())


def _boot(context: CliContext, job_id: str | None, node: str | None) -> int:
    from gpucluster.cluster import aws, boot_logs
    from gpucluster.following import boot

    config = context.load()
    cloud = aws.connect(config, context.config_path)
    with head(context, config) as remote:
        kept = partial(boot_logs.kept, cloud)
        _print(boot.lines(remote, _known(remote, job_id), node, kept))
    return 0


def _follow(context: CliContext, job_id: str | None, asked: Selection) -> int:
    """Also waits for a head node that does not answer yet. A context's login node must answer at once: ssh says in the
    same way that it is away and that it refuses the user."""
    try:
        if context.chosen_context():
            with head(context) as remote:
                return _shown(remote, _known(remote, job_id), asked)
        patience = Patience("", following.tell)
        with head(context, patience=patience) as remote:
            return _shown(remote, patience.ask(lambda: _known(remote, job_id)), asked)
    except KeyboardInterrupt:
        return 0


def _shown(remote: Remote, job_id: str, asked: Selection) -> int:
    if ending := following.follow(remote, job_id, asked):
        ending.check(job_id)
    return 0


def _known(remote: Remote, job_id: str | None) -> str:
    """Default: the newest job. Raises UsageError."""
    found = job_id or jobs.latest(remote)
    jobs.require_folder(remote, found)
    return found
