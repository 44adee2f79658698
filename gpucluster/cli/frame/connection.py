"""Connects verbs to the head node of their cluster file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

from gpucluster.cli.frame.context import CliContext
from gpucluster.config import ClusterConfig
from gpucluster.following.patience import Patience
from gpucluster.head.login import LoginRemote
from gpucluster.head.openssh import Alias
from gpucluster.head.remote import SshRemote


@contextmanager
def head(
    context: CliContext, config: ClusterConfig | None = None, *, patience: Patience | None = None
) -> Iterator[SshRemote | LoginRemote]:
    """The head node; of a context, the login node. Raises CloudError: not deployed, not running, not
    reachable. With `patience` it waits until AWS answers and the head node runs."""
    if chosen := context.chosen_context():
        with closing(chosen.remote()) as login:
            yield login
        return
    from gpucluster.cluster import aws

    cloud = aws.connect(config or context.load(), context.config_path)
    door = patience.ask(cloud.door) if patience else cloud.door()
    remote = SshRemote(door, find_again=cloud.door)
    try:
        yield remote
    finally:
        remote.close()


@contextmanager
def alias(context: CliContext, config: ClusterConfig | None = None) -> Iterator[Alias]:
    """How scp, rsync and ssh reach the cluster."""
    if chosen := context.chosen_context():
        with closing(chosen.remote()) as login:
            yield login.alias
        return
    from gpucluster.head import openssh

    with openssh.temporary((config or context.load()).name, context.config_path) as found:
        yield found
