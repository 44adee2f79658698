"""Connects verbs to the head node of their cluster file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

from gpucluster.cli.frame.context import CliContext
from gpucluster.config import ClusterConfig
from gpucluster.head.login import LoginRemote
from gpucluster.head.openssh import Alias
from gpucluster.head.remote import SshRemote


@contextmanager
def head(context: CliContext, config: ClusterConfig | None = None) -> Iterator[SshRemote | LoginRemote]:
    """Of a context: the login node. Raises CloudError: not deployed, not running, not reachable."""
    if chosen := context.chosen_context():
        with closing(chosen.remote()) as login:
            yield login
        return
    from gpucluster.cluster import aws

    cloud = aws.connect(config or context.load(), context.config_path)
    remote = SshRemote(cloud.door(), find_again=cloud.door)
    try:
        yield remote
    finally:
        remote.close()


@contextmanager
def alias(context: CliContext) -> Iterator[Alias]:
    """How scp, rsync and ssh reach the cluster."""
    if chosen := context.chosen_context():
        with closing(chosen.remote()) as login:
            yield login.alias
        return
    from gpucluster.head import openssh

    with openssh.temporary(context.load().name, context.config_path) as found:
        yield found
