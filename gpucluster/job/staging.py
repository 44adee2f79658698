"""What of a job's data is moved between S3 and Lustre before and after it: the #BB_LUA lines of its script.

Slurm acts on them (templates/slurm/burst_buffer.lua): `stage_in` while the job waits, `stage_out` when its nodes are
free again.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

from gpucluster.config.document import Finding
from gpucluster.config.models import ClusterConfig, FsxLustre
from gpucluster.job.spec import JobSpec

UNWRITABLE = ("%", "capacity=")
"""Anywhere in such a line Slurm puts its own values in place of %j and the like, and reads sizes of burst buffers."""


def directives(spec: JobSpec, config: ClusterConfig, folder: str) -> tuple[str, ...]:
    """`folder`: the job's own, where it is told what came of them."""
    moves = [("stage_in", path) for path in loaded(spec, config)] + [("stage_out", path) for path in spec.exports]
    return tuple(f"#BB_LUA {word} path={path}" for word, path in (*moves, ("folder", folder))) if moves else ()


def loaded(spec: JobSpec, config: ClusterConfig) -> tuple[str, ...]:
    """The folders on Lustre that the job reads: its channels', and what the RAM of its nodes is filled from."""
    sources = [channel.source for channel in spec.channels.values()] + [_ram_source(spec, config)]
    return tuple(dict.fromkeys(path for path in sources if path and path.startswith("/") and on_lustre(path, config)))


def _ram_source(spec: JobSpec, config: ClusterConfig) -> str | None:
    own = (each for each in config.storage if each.type == "beegfs-ram" and each.scope == "job")
    return next((getattr(each, "source", None) for each in own if each.partition == spec.partition), None)


def on_lustre(path: str, config: ClusterConfig) -> FsxLustre | None:
    """The file system of the cluster that holds it."""
    found = (each for each in config.storage if isinstance(each, FsxLustre) and _within(path, each.mount))
    return next(found, None)


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
        mounts = [each.mount for each in config.storage if isinstance(each, FsxLustre)]
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
