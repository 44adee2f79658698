"""What only jobs of the administrator can use: on the nodes, the cache of data sets and the programs for a file system
in memory belong to that account."""

from __future__ import annotations

from collections.abc import Iterator

from gpucluster import account
from gpucluster.addresses import in_s3
from gpucluster.config.document import Finding
from gpucluster.config.models import ClusterConfig
from gpucluster.job import ram, staging
from gpucluster.job.spec import JobSpec


def check(spec: JobSpec, config: ClusterConfig) -> Iterator[Finding]:
    """Jobs of other users that ask for it would fail on their nodes."""
    if account.user() != account.ADMINISTRATOR:
        yield from _copies(spec)
        yield from _memory(spec, config)


def _copies(spec: JobSpec) -> Iterator[Finding]:
    for name, channel in spec.channels.items():
        if channel.how == "copy":
            only = f"only jobs of the administrator can copy data to the nodes, not those of {account.user()}"
            other = "mode: stream, or a folder on shared storage" if in_s3(channel.source) else "mode: mount"
            yield Finding(("channels", name, "mode"), only, f"use {other}")


def _memory(spec: JobSpec, config: ClusterConfig) -> Iterator[Finding]:
    offered, text = ram.offered(spec, config), "\n".join(staging.texts(spec))
    if offered and (staging.names(text, offered.mount) or "GPUCLUSTER_RAM" in text):
        only = f"uses {offered.mount}, which only jobs of the administrator have, not those of {account.user()}"
        yield Finding(("command",), only, "use another file system")
