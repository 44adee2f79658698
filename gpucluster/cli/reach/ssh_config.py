"""`gpucluster ssh-config`: the cluster's hosts for plain ssh, scp, rsync and editors."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpucluster.cli.frame.context import CliContext
from gpucluster.errors import UsageError

if TYPE_CHECKING:
    from gpucluster.head.openssh import Alias


@click.command()
@click.option(
    "--host",
    "name",
    metavar="ALIAS",
    help="Name of the head node for ssh.  [default: gpucluster-NAME in lower case, with the cluster's name]",
)
@click.option("--write", is_flag=True, help="Store the configuration, and include it in ~/.ssh/config.")
@click.option("--remove", is_flag=True, help="Remove what --write stored for this alias.")
@click.pass_obj
def command(context: CliContext, name: str | None, write: bool, remove: bool) -> int:
    """Print an OpenSSH configuration for the cluster. With --write, your own ssh uses it from then on.

    Then ssh, scp, rsync and editors reach the head node as ALIAS, and a running compute node as train-1.ALIAS. No port
    is opened: the connections go through the Instance Connect Endpoint, and host keys are verified.
    """
    from gpucluster.head import openssh

    if write and remove:
        raise click.UsageError("--write and --remove contradict each other")
    alias = openssh.of_user(openssh.check_name(openssh.default_name(context.load().name) if name is None else name))
    if remove:
        if not alias.folder.exists():
            raise UsageError(f"there is no alias {alias.name}", f"aliases are the folders in {alias.folder.parent}")
        shutil.rmtree(alias.folder)
        click.echo(f"removed {alias.name}", err=True)
        return 0
    if write:
        alias.refuse_another(context.config_path)
    alias.make()
    text = alias.config(context.config_path, os.environ.get("AWS_PROFILE"))
    if not write:
        click.echo(text, nl=False)
        return 0
    return _write(alias, text)


def _write(alias: Alias, text: str) -> int:
    from gpucluster.head import openssh

    alias.write_config(text)
    users = Path.home() / ".ssh" / "config"
    if openssh.include(users):
        click.echo(f"{users}: put `{openssh.INCLUDE}` before its first line", err=True)
    click.echo(f"the head node: ssh {alias.name}   a running node: ssh {alias.host('train-1')}", err=True)
    click.echo(alias.config_file)
    return 0
