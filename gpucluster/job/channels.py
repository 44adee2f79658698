"""A job's input data: the variables that its script gets, and the requests that cannot be met.

Only the job's first node can see whether the data exists and is enough for every rank: it checks before the command
starts (gpucluster_train/prepare.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpucluster.addresses import in_s3, within
from gpucluster.config.document import Finding
from gpucluster.config.models import ClusterConfig
from gpucluster.job.spec import Channel, JobSpec


def files(spec: JobSpec) -> dict[str, str]:
    asked = {
        name: {"source": channel.source, "shard": channel.shard, "mode": channel.how, "unpack": channel.unpack}
        for name, channel in spec.channels.items()
    }
    if not asked:
        return {}
    import json

    return {"channels.json": json.dumps(asked, indent=2) + "\n"}


def mounts(spec: JobSpec) -> tuple[str, ...]:
    """The mounts of a job's container for data that is read in place. The node adds the mounts of copies
    (gpucluster_job/containers.py)."""
    lie = (each.source.rstrip("/") for each in spec.channels.values() if each.how == "mount")
    return tuple(f"{source}:{source}:ro" for source in dict.fromkeys(lie))


def check(spec: JobSpec, config: ClusterConfig) -> Iterator[Finding]:
    for name, channel in spec.channels.items():
        if flaw := name_flaw(channel.source):
            yield Finding(("channels", name, "source"), flaw)
        yield from _mode(name, channel)
        if in_s3(channel.source):
            yield from _access(name, channel, spec, config)
        elif not channel.is_local and not channel.task:
            yield from _mounted(name, channel, config)
        if spec.min_nodes and channel.shard == "by-node":
            lost = "an elastic job that loses a node would lose that node's part of the data"
            yield Finding(("channels", name, "shard"), lost, "use by-rank, or remove min_nodes")


_UNLISTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def name_flaw(name: str) -> str:
    """Why the ranks' lists, which have one path in UTF-8 on each line, cannot have it; empty if they can. The same rule
    as in gpucluster_train/channels.py."""
    if not (found := _UNLISTABLE.search(name)):
        return ""
    what = "is not UTF-8" if found[0] >= "\ud800" else "has a line break or another control character"
    return f"{in_print(name)}: this name {what}: rename it"


def in_print(name: str) -> str:
    """`caf\\xe9.tar` for a byte that is not UTF-8, `a\\nb.tar` for a line break."""

    def escaped(found: re.Match[str]) -> str:
        code = ord(found[0])
        return f"\\x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else repr(found[0])[1:-1]

    return _UNLISTABLE.sub(escaped, name)


def _mode(name: str, channel: Channel) -> Iterator[Finding]:
    path, remote = ("channels", name, "mode"), in_s3(channel.source)
    if channel.how == "mount" and remote:
        link = "use copy or stream, or a path on a file system that is linked to it"
        yield Finding(path, f"mount needs a folder, got {channel.source}", link)
    if channel.how == "stream" and not remote:
        yield Finding(path, f"stream needs an s3:// source, got {channel.source}", "use mount or copy")
    if channel.unpack == "tar" and channel.how != "copy":
        yield Finding(("channels", name, "unpack"), f"unpack needs mode copy, got mode {channel.how}", "mode: copy")


def _access(name: str, channel: Channel, spec: JobSpec, config: ClusterConfig) -> Iterator[Finding]:
    """A job with its own AWS keys may read any bucket."""
    if brings_keys(spec):
        return
    if config.jobs_may("read", channel.source):
        return
    named = ", ".join(each.uri for each in config.s3_access) or "nothing"
    refused = f"the jobs of the cluster {config.name} may not read {channel.source}: s3_access names {named}"
    yield Finding(
        ("channels", name, "source"), refused, f'add {{uri: "{channel.source}"}} to s3_access in cluster.yaml'
    )


def brings_keys(spec: JobSpec) -> bool:
    return "AWS_ACCESS_KEY_ID" in (*spec.secrets, *spec.env)


def _mounted(name: str, channel: Channel, config: ClusterConfig) -> Iterator[Finding]:
    if problem := not_shared(channel.source, config):
        yield Finding(("channels", name, "source"), problem, "put the data there, or name an s3:// prefix")


def not_shared(path: str, config: ClusterConfig) -> str | None:
    """Why some nodes would lack this path. The user's AMI may contain data, so other paths are accepted with one."""
    mounts = sorted({storage.mount for storage in config.storage} | {config.home.mount})
    own_image = [each for each in (config.software.image, *(part.image for part in config.partitions)) if each]
    if any(image.startswith("ami-") for image in own_image):
        return None
    if any(within(path, mount) for mount in mounts):
        return None
    if ".." in path.split("/"):
        return f"{path} has .., which may lead out of shared storage ({', '.join(mounts)})"
    return f"{path} is not on shared storage ({', '.join(mounts)})"
