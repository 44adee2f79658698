"""`gpucluster sync`: rsync to the head node or a compute node, or from it."""

from __future__ import annotations

import sys
from functools import partial

import click

from gpucluster.cli.frame import connection
from gpucluster.cli.frame.context import CliContext
from gpucluster.cli.frame.following import tell

EXAMPLES = """\b
Examples:
  gpucluster sync data/ :data                   # the contents of data to data in your home directory
  gpucluster sync --exclude '*.tmp' data :      # data itself, without temporary files
  gpucluster sync train-1:/scratch/profile .    # from a running node
"""


@click.command(epilog=EXAMPLES)
@click.option("--delete", is_flag=True, help="Delete files in TARGET that SOURCE does not have.")
@click.option(
    "--exclude", multiple=True, metavar="PATTERN", help="Do not copy these files, such as '*.tmp'; repeatable."
)
@click.option(
    "--bwlimit",
    metavar="RATE",
    help="At most this many bytes per second: 500k (KiB) or 10m (MiB).  [default: no limit]",
)
@click.option("-n", "--dry-run", is_flag=True, help="List what would be copied and deleted, and change nothing.")
@click.argument("source")
@click.argument("target")
@click.pass_obj
def command(
    context: CliContext,
    delete: bool,
    exclude: tuple[str, ...],
    bwlimit: str | None,
    dry_run: bool,
    source: str,
    target: str,
) -> int:
    """Copy new and changed files to the cluster or from it, with rsync.

    :PATH is on the head node, train-1:PATH on a running node. A relative PATH there starts in your home directory,
    which all nodes share. SOURCE/ with a slash is the contents of the folder, SOURCE the folder itself. If the
    connection breaks, run the same command again: it continues where it stopped.
    """
    from gpucluster.head import copying

    options = ["--delete"] * delete + [f"--exclude={pattern}" for pattern in exclude]
    options += [f"--bwlimit={bwlimit}"] * bool(bwlimit)
    if dry_run:
        options += ["--dry-run", "--itemize-changes"]
    elif sys.stderr.isatty():
        options.append(copying.PROGRESS)
    copy = copying.Copy.parse((source, target))
    copy.check(recursive=True)
    copying.require("ssh")
    copying.require("rsync")
    with connection.alias(context) as alias:
        # The list of a dry run is the command's result, rsync's progress is not.
        call = partial(copying.call, stdout=1 if dry_run else 2)
        copying.run_on(copying.rsync_argv(alias, copy, options), copy.remote, tell, call)
    return 0
