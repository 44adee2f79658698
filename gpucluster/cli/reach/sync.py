"""`gpucluster sync`: rsync to the head node or a compute node, or from it."""

from __future__ import annotations

import sys

import click

from gpucluster.cli.frame import connection
from gpucluster.cli.frame.context import CliContext
from gpucluster.cli.frame.following import tell


@click.command()
@click.option("--delete", is_flag=True, help="Delete files in TARGET that SOURCE lacks.")
@click.option("--exclude", multiple=True, metavar="PATTERN", help="Skip these files; repeatable.")
@click.option("--bwlimit", metavar="RATE", help="Limit per second: 500k, 10m.  [default: no limit]")
@click.option("-n", "--dry-run", is_flag=True, help="Show what would be copied and deleted, and copy nothing.")
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
    """Copy changed files with rsync: gpucluster sync data/ :data

    Paths are those of `gpucluster cp`; SOURCE/ with a slash is the folder's content, SOURCE the folder itself. If the
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
        copying.run_on(copying.rsync_argv(alias, copy, options), copy.remote, tell)
    return 0
