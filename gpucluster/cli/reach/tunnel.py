"""`gpucluster tunnel`: the ProxyCommand of the configuration that `ssh-config` and `cp` write."""

from __future__ import annotations

import signal
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpucluster.cli.frame.context import CliContext

if TYPE_CHECKING:
    from gpucluster.head.remote import Door, Way


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.argument("host")
@click.pass_obj
def command(context: CliContext, folder: Path, host: str) -> int:
    """Carry an SSH connection over stdin and stdout: OpenSSH starts this itself, see `gpucluster ssh-config`.

    FOLDER holds the key and takes the host key. Its name is the alias of the head node; HOST is that alias or, for a
    compute node, train-1.ALIAS.
    """
    from gpucluster.cluster import aws
    from gpucluster.config import load
    from gpucluster.head import openssh, remote, tunnel

    # Ctrl-C is for ssh, which may pass it on to the remote program. When ssh ends, stdin ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # ssh ends its ProxyCommand by SIGHUP (ssh_kill_proxy_command in OpenSSH's sshconnect.c): `main` would report that
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    alias = openssh.Alias(folder.absolute())
    node = alias.node(host)
    # not context.load: warnings about the file would stand in front of the output of every ssh
    door = aws.connect(load(context.config_path), context.config_path).door()
    way: Way = door if node is None else door.to_node(node)
    alias.trust(host, _host_keys(door, node))
    way.push_key(alias.public_key())
    opened = tunnel.open_tunnel(way.tunnel_url(), timeout_s=remote.CONNECT_TIMEOUT_S)
    tunnel.carry(opened, sys.stdin.fileno(), sys.stdout.fileno())
    return 0


def _host_keys(door: Door, node: str | None) -> list[str]:
    from gpucluster.head import openssh, remote

    if node is None:
        return [remote.published(door.host_key())]
    with closing(remote.SshRemote(door)) as head:
        return openssh.node_keys(head, node)
