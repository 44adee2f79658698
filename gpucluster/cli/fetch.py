"""`gpucluster fetch`: a job's folder on this machine."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from gpucluster.cli.frame.connection import head
from gpucluster.cli.frame.context import CliContext
from gpucluster.cli.frame.following import tell
from gpucluster.cli.frame.job_id import job_id as job_number
from gpucluster.following import jobs

PARTS = {
    "all": ("--exclude=/lib/", "--exclude=/bin/"),
    "logs": ("--include=/log.txt", "--include=/result.json", "--exclude=*"),
    "output": ("--include=/code/***", "--exclude=*"),
}
"""lib and bin: our own programs, which travel with every job. code: where the ranks' programs start."""


@click.command()
@click.argument("job_id", type=job_number)
@click.argument("part", type=click.Choice(list(PARTS)), default="all")
@click.option(
    "--to",
    "folder",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Folder to copy to. Default: the job's name.",
)
@click.pass_obj
def command(context: CliContext, job_id: str, part: str, folder: Path | None) -> int:
    """Copy the folder of JOB_ID to this machine with rsync.

    PART: logs for log.txt and result.json; output for the working directory, with what the job has written there;
    all, the default, for both and the job's script and specification.
    Fetch again to get what is new. The last line of stdout is the folder.
    """
    from gpucluster.head import copying, openssh

    copying.require("ssh")
    copying.require("rsync")
    with head(context) as remote:
        job = jobs.require(remote, job_id)
        source = jobs.real_folder(remote, job_id)
    if job and job.phase != "done":
        tell(f"{jobs.describe(job)}: fetch again after its end to get the rest")
    folder = folder or Path(Path(source).name)
    folder.mkdir(parents=True, exist_ok=True)
    copy = copying.Copy([copying.Place(copying.HEAD, f"{source}/")], copying.Place(None, str(folder)))
    options = [*PARTS[part], *[copying.PROGRESS] * sys.stderr.isatty()]
    with openssh.temporary(context.load().name, context.config_path) as alias:
        copying.run_on(copying.rsync_argv(alias, copy, options), copying.HEAD, tell)
    click.echo(folder)
    return 0
