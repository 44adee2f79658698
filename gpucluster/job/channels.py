"""A job's input data: what its script is told of it, and what cannot be as it was asked for.

Whether the data is there, and whether it is enough for every rank, only the job's first node can see: it looks before
the command starts (gpucluster_train/prepare.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import PurePosixPath

from gpucluster.addresses import in_s3
from gpucluster.config.document import Finding
from gpucluster.config.models import ClusterConfig
from gpucluster.job.spec import Channel, JobSpec


def files(spec: JobSpec) -> dict[str, str]:
    asked = {
        name: {"source": channel.source, "shard": channel.shard, "mode": channel.how, "unpack": channel.unpack}
        for name, channel in spec.channels.items()
    }
    return {"channels.json": json.dumps(asked, indent=2) + "\n"} if asked else {}


def mounts(spec: JobSpec) -> tuple[str, ...]:
    """Of a job's container: what is read where it lies. Copies are where the node says
    (gpucluster_job/containers.py)."""
    lie = (each.source.rstrip("/") for each in spec.channels.values() if each.how == "mount")
    return tuple(f"{source}:{source}:ro" for source in dict.fromkeys(lie))


def check(spec: JobSpec, config: ClusterConfig) -> Iterator[Finding]:
    for name, channel in spec.channels.items():
        yield from _mode(name, channel)
        if in_s3(channel.source):
            yield from _access(name, channel, spec, config)
        else:
            yield from _mounted(name, channel, config)
        if spec.min_nodes and channel.shard == "by-node":
            lost = "a node that an elastic job loses would take its part of the data along"
            yield Finding(("channels", name, "shard"), lost, "by-rank, or leave min_nodes out")


def _mode(name: str, channel: Channel) -> Iterator[Finding]:
    path, remote = ("channels", name, "mode"), in_s3(channel.source)
    if channel.how == "mount" and remote:
        link = "copy or stream, or a path on a file system that is linked to it"
        yield Finding(path, f"only a folder is mounted, got {channel.source}", link)
    if channel.how == "stream" and not remote:
        yield Finding(path, f"only S3 is streamed, got {channel.source}", "mount or copy")
    if channel.unpack == "tar" and channel.how != "copy":
        yield Finding(
            ("channels", name, "unpack"), f"only what is copied is unpacked, got mode {channel.how}", "mode: copy"
        )


def _access(name: str, channel: Channel, spec: JobSpec, config: ClusterConfig) -> Iterator[Finding]:
    """A job that brings keys of its own may have any data."""
    if "AWS_ACCESS_KEY_ID" in (*spec.secrets, *spec.env):
        return
    if any(_covers(each.uri, channel.source) for each in config.s3_access):
        return
    named = ", ".join(each.uri for each in config.s3_access) or "nothing"
    refused = f"the jobs of the cluster {config.name} may not read {channel.source}: s3_access names {named}"
    yield Finding(
        ("channels", name, "source"), refused, f'add {{uri: "{channel.source}"}} to s3_access in cluster.yaml'
    )


def _covers(given: str, asked: str) -> bool:
    given, asked = given.rstrip("/"), asked.rstrip("/")
    return asked == given or asked.startswith(f"{given}/")


def _mounted(name: str, channel: Channel, config: ClusterConfig) -> Iterator[Finding]:
    """An image of one's own may bring data along."""
    mounts = sorted({storage.mount for storage in config.storage} | {config.home.mount})
    own_image = [each for each in (config.software.image, *(part.image for part in config.partitions)) if each]
    if any(image.startswith("ami-") for image in own_image):
        return
    if not any(PurePosixPath(channel.source).is_relative_to(mount) for mount in mounts):
        elsewhere = f"{channel.source} is on no storage that all nodes share, which is {', '.join(mounts)}"
        yield Finding(("channels", name, "source"), elsewhere, "put the data there, or name an s3:// prefix")
