"""The data of a job that is moved between S3 and Lustre before and after it: the #BB_LUA lines of its script.

Slurm acts on them (templates/slurm/burst_buffer.lua): `stage_in` while the job waits, `stage_out` when its nodes are
free again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gpucluster import job_keys
from gpucluster.addresses import within
from gpucluster.config.document import Finding
from gpucluster.config.models import ClusterConfig
from gpucluster.config.storage import BeegfsRam, FsxLustre
from gpucluster.job import ram
from gpucluster.job.spec import Channel, JobSpec

UNWRITABLE = ("%", "capacity=")
"""Slurm replaces %j and similar anywhere in such a line, and reads sizes of burst buffers from it."""


def directives(
    spec: JobSpec, config: ClusterConfig, folder: str, used: Sequence[str], in_memory: BeegfsRam | None
) -> tuple[str, ...]:
    """`folder`: the job's folder, where the outcome is written. `used`: see `uses`."""
    named = [("use", path) for path in used]
    # each element of an array would load it; without it, Lustre loads each file when it is first read
    loads = [] if spec.elements else [("stage_in", path) for path in loaded(spec, config, in_memory)]
    moves = named + loads + [("stage_out", path) for path in spec.exports]
    return tuple(f"#BB_LUA {word} path={path}" for word, path in (*moves, ("folder", folder))) if moves else ()


def uses(spec: JobSpec, config: ClusterConfig, in_memory: BeegfsRam | None) -> tuple[str, ...]:
    """The mounts of file systems with the lifetime of jobs that this job names anywhere: they are created for it and
    deleted after it. The file system in memory names the source of its content, and where it is exported to."""
    places = (in_memory.source, in_memory.export) if in_memory else ()
    text = "\n".join((*texts(spec), *filter(None, places)))
    return tuple(each.mount for each in config.lustre_with_jobs if names(text, each.mount))


def names(text: str, mount: str) -> bool:
    """Whether the text names a path at or below the mount: /fsx/a and --data=/fsx, but not /fsx2, ~/fsx or s3://fsx."""
    return re.search(rf"((?<![\w./~}}-])|(?<=file://)){re.escape(mount)}(?![\w.-])", text) is not None


def texts(spec: JobSpec) -> Iterator[str]:
    """Whatever of a job may name a path on the cluster."""
    return (text for key in job_keys.of_job() if key.names_paths for text in _texts(getattr(spec, key.name)))


def _texts(value: object) -> Iterator[str]:
    each = value.values() if isinstance(value, dict) else value if isinstance(value, tuple) else (value,)
    return (one.source if isinstance(one, Channel) else str(one) for one in each if one)


def loaded(spec: JobSpec, config: ClusterConfig, in_memory: BeegfsRam | None) -> tuple[str, ...]:
    """The folders on Lustre that the job reads: those of its channels, and the source of its RAM file system."""
    sources = [channel.source for channel in spec.channels.values()] + [in_memory.source if in_memory else None]
    return tuple(dict.fromkeys(path for path in sources if path and path.startswith("/") and on_lustre(path, config)))


def on_lustre(path: str, config: ClusterConfig) -> FsxLustre | None:
    """The cluster's Lustre file system that contains the path."""
    return next((each for each in config.lustre if within(path, each.mount)), None)


def check(spec: JobSpec, config: ClusterConfig) -> Iterator[Finding]:
    """The problems that keep this cluster from staging the paths of the job."""
    if spec.array or spec.sweep:
        yield from _array(spec, config)
    for index, path in enumerate(spec.exports):
        yield from _export(("exports", index), path, config)
    for name, channel in spec.channels.items():
        if channel.source.startswith("/") and on_lustre(channel.source, config):
            yield from _writable(("channels", name, "source"), channel.source)


def _array(spec: JobSpec, config: ClusterConfig) -> Iterator[Finding]:
    """Data is moved before and after a whole job, not for each element of an array."""
    if spec.exports:
        yield Finding(
            ("exports",),
            "are made once, after a whole job, not after each element of a sweep or an array",
            "submit single jobs",
        )
    for mount in uses(spec, config, ram.offered(spec, config)):
        made = f"{mount} is created for a whole job, not for each element of a sweep or an array"
        yield Finding(
            ("array",) if spec.array else ("sweep",), made, "read from s3://, or set lifetime: cluster for it"
        )


def _export(key: tuple[str | int, ...], path: str, config: ClusterConfig) -> Iterator[Finding]:
    system = on_lustre(path, config)
    if system is None:
        mounts = [each.mount for each in config.lustre]
        has = f"the cluster {config.name} has {', '.join(mounts) or 'no Lustre file system'}"
        yield Finding(key, f"must lie on a Lustre file system, got {path}", has)
        return
    linked = [system.mount + each.path.rstrip("/") for each in system.data_repositories]
    if not any(within(path, each) for each in linked):
        said = f"must lie in a folder that is linked to S3, got {path}"
        yield Finding(key, said, f"linked on {system.mount}: {', '.join(linked) or 'none, see data_repositories'}")
        return
    yield from _writable(key, path)


def _writable(key: tuple[str | int, ...], path: str) -> Iterator[Finding]:
    found = next((each for each in UNWRITABLE if each in path), None)
    if found:
        yield Finding(key, f"Slurm cannot stage a path that contains {found!r}, got {path}", "rename the folder")
