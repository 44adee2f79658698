"""`gpucluster ssh`: a shell on the head node, or one command there."""

from __future__ import annotations

import click

from gpucluster.cli.connection import head
from gpucluster.cli.context import CliContext


@click.command()
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]")
@click.pass_obj
def command(context: CliContext, words: tuple[str, ...]) -> int:
    """Open a shell on the head node; with a command after --, run that and pass its exit code on.

    The way in is EC2 Instance Connect: no key pair, no open port. The host key is checked.
    """
    from gpucluster import terminal

    with head(context) as remote:
        return terminal.run(remote.session(), words) if words else terminal.shell(remote.session())
