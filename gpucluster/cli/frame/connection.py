"""From the cluster file to its head node, for the verbs that need it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from gpucluster.cli.frame.context import CliContext
from gpucluster.config import ClusterConfig
from gpucluster.head.remote import SshRemote


@contextmanager
def head(context: CliContext, config: ClusterConfig | None = None) -> Iterator[SshRemote]:
    """Raises CloudError: not deployed, not running, not reachable."""
    from gpucluster.cluster import aws

    remote = SshRemote(aws.connect(config or context.load(), context.config_path).door())
    try:
        yield remote
    finally:
        remote.close()
