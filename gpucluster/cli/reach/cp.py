"""`gpucluster cp`: scp to the head node or a compute node, or from it."""

from __future__ import annotations

import click

from gpucluster.cli.frame import connection
from gpucluster.cli.frame.context import CliContext
from gpucluster.cli.frame.following import tell

EXAMPLES = """\b
Examples:
  gpucluster cp train.py :                        # to your home directory on the head node
  gpucluster cp -r data :data
  gpucluster cp train-1:/scratch/profile.json .   # from a running node
"""


@click.command(epilog=EXAMPLES)
@click.option("-r", "--recursive", is_flag=True, help="Copy folders with their contents.")
@click.argument("words", nargs=-1, required=True, metavar="SOURCE... TARGET")
@click.pass_obj
def command(context: CliContext, recursive: bool, words: tuple[str, ...]) -> int:
    """Copy files to the cluster or from it, with scp.

    :PATH is on the head node, train-1:PATH on a running node. A relative PATH there starts in your home directory,
    which all nodes share. For large data use `gpucluster sync`, which continues after a broken connection.
    """
    from gpucluster.head import copying

    if len(words) < 2:
        raise click.UsageError("two paths at least: SOURCE and TARGET")
    copy = copying.Copy.parse(words)
    copy.check(recursive=recursive)
    copying.require("scp")
    with connection.alias(context) as alias:
        try:
            copying.run(copying.scp_argv(alias, copy, recursive=recursive), copy.remote, tell)
        except KeyboardInterrupt:
            tell(copying.left_by(copy))
            raise
    return 0
