"""`gpucluster ssh`: a shell on the head node, or one command there."""

from __future__ import annotations

from collections.abc import Sequence

import click

from gpucluster.cli.frame.connection import head
from gpucluster.cli.frame.context import CliContext
from gpucluster.head.login import LoginRemote

EXAMPLES = """\b
Examples:
  gpucluster ssh
  gpucluster ssh -- sinfo -l
  gpucluster ssh -- 'cd jobs && ls'     # one argument is a line for the shell there
"""


@click.command(epilog=EXAMPLES, context_settings={"allow_interspersed_args": False})
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]")
@click.pass_obj
def command(context: CliContext, words: tuple[str, ...]) -> int:
    """Open a shell on the head node, or run a command there and return its exit code.

    The connection goes through EC2 Instance Connect: it needs no key pair and no port that is open to the internet.
    The host key is verified.
    """
    from gpucluster.head import terminal

    with head(context) as remote:
        if isinstance(remote, LoginRemote):
            return remote.attach(remote_command(words) if words else None)
        return terminal.run(remote.session(), remote_command(words)) if words else terminal.shell(remote.session())


def remote_command(words: Sequence[str]) -> Sequence[str]:
    """As with ssh, a single argument is a shell command: `ssh host 'a | b'`. Several arguments are quoted."""
    return words if len(words) > 1 else ["bash", "-c", *words]
