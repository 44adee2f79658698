"""What of a job's data is moved between S3 and Lustre before and after it: the #BB_LUA lines of its script.

Slurm acts on them (templates/slurm/burst_buffer.lua): `stage_in` while the job waits, `stage_out` when its nodes are
free again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from gpucluster.config.document import Finding
from gpucluster.config.models import ClusterConfig
from gpucluster.config.storage import FsxLustre
from gpucluster.job import ram
from gpucluster.job.spec import JobSpec

UNWRITABLE = ("%", "capacity=")
"""Anywhere in such a line Slurm puts its own values in place of %j and the like, and reads sizes of burst buffers."""


def directives(spec: JobSpec, config: ClusterConfig, folder: str) -> tuple[str, ...]:
    """`folder`: the job's own, where it is told what came of them."""
    used = [("use", path) for path in uses(spec, config)]
    loads = [("stage_in", path) for path in loaded(spec, config)]
    moves = used + loads + [("stage_out", path) for path in spec.exports]
    return tuple(f"#BB_LUA {word} path={path}" for word, path in (*moves, ("folder", folder))) if moves else ()


def uses(spec: JobSpec, config: ClusterConfig) -> tuple[str, ...]:
    """The mounts of file systems that live with jobs which the job names anywhere: they are made for it, and stay as
    long as it does."""
    text = "\n".join(_texts(spec, config))
    return tuple(each.mount for each in config.lustre_with_jobs if names(text, each.mount))


def names(text: str, mount: str) -> bool:
    """Whether there is a path at or below the mount: /fsx/a and --data=/fsx, but neither /fsx2, ~/fsx nor s3://fsx."""
    return re.search(rf"((?<![\w./~}}-])|(?<=file://)){re.escape(mount)}(?![\w.-])", text) is not None


def _texts(spec: JobSpec, config: ClusterConfig) -> Iterator[str]:
    yield from spec.command
    yield from spec.env.values()
    yield from spec.exports
    yield from spec.container_mounts
    yield from spec.sbatch_args
    yield from (channel.source for channel in spec.channels.values())
    yield spec.container_image or ""
    yield from (place or "" for place in _ram_places(spec, config))


def loaded(spec: JobSpec, config: ClusterConfig) -> tuple[str, ...]:
    """The folders on Lustre that the job reads: its channels', and what the RAM of its nodes is filled from."""
    sources = [channel.source for channel in spec.channels.values()] + [_ram_places(spec, config)[0]]
    return tuple(dict.fromkeys(path for path in sources if path and path.startswith("/") and on_lustre(path, config)))


def _ram_places(spec: JobSpec, config: ClusterConfig) -> tuple[str | None, str | None]:
    """What the RAM of its nodes is filled from, and where its content goes in the end."""
    found = ram.offered(spec, config)
    return (found.source, found.export) if found else (None, None)


def on_lustre(path: str, config: ClusterConfig) -> FsxLustre | None:
    """The file system of the cluster that holds it."""
    return next((each for each in config.lustre if _within(path, each.mount)), None)


def check(spec: JobSpec, config: ClusterConfig) -> Iterator[Finding]:
    """What keeps this cluster from staging what the job names."""
    for index, path in enumerate(spec.exports):
        yield from _export(("exports", index), path, config)
    for name, channel in spec.channels.items():
        if channel.source.startswith("/") and on_lustre(channel.source, config):
            yield from _writable(("channels", name, "source"), channel.source)


def _export(key: tuple[str | int, ...], path: str, config: ClusterConfig) -> Iterator[Finding]:
    system = on_lustre(path, config)
    if system is None:
        mounts = [each.mount for each in config.lustre]
        has = f"the cluster {config.name} has {', '.join(mounts) or 'no Lustre file system'}"
        yield Finding(key, f"must lie on a Lustre file system, got {path}", has)
        return
    linked = [system.mount + each.path.rstrip("/") for each in system.data_repositories]
    if not any(_within(path, each) for each in linked):
        said = f"must lie in a folder that is linked to S3, got {path}"
        yield Finding(key, said, f"linked on {system.mount}: {', '.join(linked) or 'none, see data_repositories'}")
        return
    yield from _writable(key, path)


def _writable(key: tuple[str | int, ...], path: str) -> Iterator[Finding]:
    found = next((each for each in UNWRITABLE if each in path), None)
    if found:
        yield Finding(key, f"Slurm cannot be told a path with {found!r} in it, got {path}", "rename the folder")


def _within(path: str, folder: str) -> bool:
    parts = PurePosixPath(path)
    return ".." not in parts.parts and parts.is_relative_to(folder or "/")
