"""`gpucluster fetch`: a job's folder on this machine."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from gpucluster.cli.frame import connection, target
from gpucluster.cli.frame.connection import head
from gpucluster.cli.frame.context import CliContext
from gpucluster.cli.frame.following import tell
from gpucluster.cli.reach.claimed import claim
from gpucluster.following import jobs

PARTS = {
    "all": (
        "--exclude=/lib/",
        "--exclude=/bin/",
        "--exclude=/secrets.sh",
        "--exclude=/[0-9]*/secrets.sh",
        "--exclude=/notify.json",
    ),
    "logs": ("--include=/log.txt", "--include=/result.json", "--exclude=*"),
    "output": ("--include=/code/***", "--exclude=*"),
    "state": (),
}
"""lib and bin: GpuCluster's programs, shipped with every job. code: the ranks' working directory. secrets.sh, also of
each element, and notify.json: the values of the job's secrets, which are there until it ends."""

WITHOUT_LINKS = ("--no-links", "--info=nonreg0")
"""An element of an array has links to files that all elements share."""


EXAMPLES = """\b
Examples:
  gpucluster fetch 12                  # everything
  gpucluster fetch 12 logs --to run12
  gpucluster fetch digits-20261129-102400 output       # of a training job on SageMaker: its archives in S3
"""


UPDATE = "--update"
"""A file that is newer here was changed here: rsync keeps it."""


@click.command(epilog=EXAMPLES)
@click.argument("job_id", type=target.any_job)
@click.argument("part", type=click.Choice(list(PARTS)), default="all", metavar="[PART]")
@click.option(
    "--to",
    "folder",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Folder to copy to.  [default: the name of the job's folder]",
)
@click.pass_obj
def command(context: CliContext, job_id: str, part: str, folder: Path | None) -> int:
    """Copy the folder of the job JOB_ID to this machine, with rsync. Fetch again to get what is new.

    A folder that has other files is refused. Fetching again keeps files that you have changed since.

    \b
    PART is one of
      all       logs, output, and the job's script and specification (default)
      logs      log.txt and result.json
      output    the program's working directory
      state     the task's files in $GPUCLUSTER_STATE

    Of a training job on SageMaker, with boto3 from S3: output is model.tar.gz and output.tar.gz, state its checkpoints,
    and result.json what SageMaker says of it.

    The last line on stdout is the folder.
    """
    if training := target.sagemaker(context, job_id):
        from gpucluster.cli.reach import fetch_training

        return fetch_training.fetch(training, job_id, part, folder)
    from gpucluster.head import copying
    from gpucluster.head.arrays import array_of

    copying.require("ssh")
    copying.require("rsync")
    with head(context) as remote:
        job = jobs.require_folder(remote, job_id)
        name = source = jobs.real_folder(remote, job_id)
        if part == "state":
            source = jobs.state_folder(remote, job_id)
    if job and job.phase != "done":
        tell(f"{jobs.describe(job)}: fetch again when it has ended, to get the rest")
    index = array_of(job_id)[1]
    folder = folder or Path(Path(name).name if index is None else f"{Path(name).parent.name}-{index}")
    claim(folder, source)
    copy = copying.Copy([copying.Place(copying.HEAD, f"{source}/")], copying.Place(None, str(folder)))
    options = [
        UPDATE,
        *PARTS[part],
        *([] if index is None else WITHOUT_LINKS),
        *[copying.PROGRESS] * sys.stderr.isatty(),
    ]
    with connection.alias(context) as alias:
        copying.run_on(copying.rsync_argv(alias, copy, options), copying.HEAD, tell)
    click.echo(folder)
    return 0
