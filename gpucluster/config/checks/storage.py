"""Rules about the entries of `storage`. The steps and tiers are those of the FSx API."""

from __future__ import annotations

from collections.abc import Iterator

from gpucluster.config.document import Finding, Path
from gpucluster.config.models import PARAMETER_SERVERS, BeegfsRam, ClusterConfig, FsxLustre, HeadNfs, Storage
from gpucluster.instances import INSTANCE_TYPES

Findings = Iterator[Finding]

TIERS_MBPS_PER_TIB = {
    "persistent-1": (50, 100, 200),
    "persistent-2": (125, 250, 500, 1000),
    "scratch-1": (),
    "scratch-2": (),
}
"""For SSD. Scratch file systems have no tier to choose."""

STEP_GIB = {"persistent-1": 2400, "persistent-2": 2400, "scratch-1": 3600, "scratch-2": 2400}
"""Capacities are 1200, 2400, then steps of this."""


def findings(config: ClusterConfig) -> Iterator[Findings]:
    yield _unique_mounts(config)
    for index, storage in enumerate(config.storage):
        path: Path = ("storage", index)
        yield _home(storage, path)
        if isinstance(storage, FsxLustre):
            for rule in (_capacity, _throughput, _repositories, _repository_paths):
                yield rule(storage, path)
        if isinstance(storage, BeegfsRam):
            yield _partition(config, storage, path)
            yield _memory(config, storage, path)
            yield _static(config, storage, path)


def _unique_mounts(config: ClusterConfig) -> Findings:
    first: dict[str, int] = {}
    for index, storage in enumerate(config.storage):
        mount = storage.__dict__.get("mount")
        if mount in first:
            yield Finding(("storage", index, "mount"), f"{mount} is the mount of storage[{first[mount]}] already")
        elif mount is not None:
            first[mount] = index


def _home(storage: Storage, path: Path) -> Findings:
    if isinstance(storage, BeegfsRam) and storage.mount == "/home":
        yield Finding((*path, "mount"), "/home in memory would be lost with the nodes", "mount it at /ram")
    if isinstance(storage, HeadNfs) and storage.mount != "/home":
        yield Finding(
            (*path, "mount"),
            f"head-nfs shares /home only, got {storage.mount}",
            "a directory under /home is on every node",
        )


def _capacity(storage: FsxLustre, path: Path) -> Findings:
    step = STEP_GIB[storage.deployment]
    if storage.capacity_gib in (1200, 2400) or (storage.capacity_gib > 2400 and storage.capacity_gib % step == 0):
        return
    above = next(size for size in (1200, 2400, -(-storage.capacity_gib // step) * step) if size >= storage.capacity_gib)
    yield Finding(
        (*path, "capacity_gib"),
        f"must be 1200, 2400 or a multiple of {step} for {storage.deployment}, got {storage.capacity_gib}",
        f"the next size up is {above}",
    )


def _throughput(storage: FsxLustre, path: Path) -> Findings:
    got, tiers = storage.throughput_mbps_per_tib, TIERS_MBPS_PER_TIB[storage.deployment]
    if got is None or got in tiers:
        return
    if not tiers:
        yield Finding(
            (*path, "throughput_mbps_per_tib"),
            f"does nothing for {storage.deployment}",
            "leave it out: scratch has one speed",
        )
        return
    *most, last = map(str, tiers)
    yield Finding(
        (*path, "throughput_mbps_per_tib"), f"must be {', '.join(most)} or {last} for {storage.deployment}, got {got}"
    )


def _repositories(storage: FsxLustre, path: Path) -> Findings:
    if storage.deployment == "scratch-1" and storage.data_repositories:
        yield Finding((*path, "data_repositories"), "cannot be linked to scratch-1", "take deployment: scratch-2")


def _repository_paths(storage: FsxLustre, path: Path) -> Findings:
    """FSx refuses two associations of which one's directory holds the other's."""
    paths = [repository.path.rstrip("/") + "/" for repository in storage.data_repositories]
    for index, later in enumerate(paths):
        for earlier in paths[:index]:
            if later.startswith(earlier) or earlier.startswith(later):
                place = (*path, "data_repositories", index, "path")
                yield Finding(
                    place,
                    f"{later.rstrip('/') or '/'} overlaps {earlier.rstrip('/') or '/'}",
                    "directories must lie apart",
                )


def _serving(config: ClusterConfig, storage: BeegfsRam) -> tuple[list[str], int] | None:
    """The instance types and min_nodes of the partition that serves it; None where there is no such partition."""
    if storage.partition == PARAMETER_SERVERS and config.parameter_servers:
        return [config.parameter_servers.instance_type], config.parameter_servers.min_nodes
    for partition in config.partitions:
        if partition.__dict__.get("name") == storage.partition:
            return list(partition.instance_types), partition.min_nodes
    return None


def _partition(config: ClusterConfig, storage: BeegfsRam, path: Path) -> Findings:
    names = [partition.name for partition in config.partitions] + [PARAMETER_SERVERS] * bool(config.parameter_servers)
    if storage.partition not in names:
        yield Finding(
            (*path, "partition"), f"there is no partition {storage.partition!r}", f"there are: {', '.join(names)}"
        )


def _memory(config: ClusterConfig, storage: BeegfsRam, path: Path) -> Findings:
    types, _ = _serving(config, storage) or ([], 0)
    for type_ in (INSTANCE_TYPES[name] for name in types if name in INSTANCE_TYPES):
        if storage.gib_per_node >= type_.memory_gib:
            yield Finding(
                (*path, "gib_per_node"),
                f"must be less than the {type_.memory_gib} GiB that {type_.name} has, got {storage.gib_per_node}",
            )


def _static(config: ClusterConfig, storage: BeegfsRam, path: Path) -> Findings:
    serving = _serving(config, storage)
    if storage.scope == "cluster" and serving and serving[1] == 0:
        yield Finding(
            (*path, "scope"),
            f"'cluster' needs nodes that are always on, and {storage.partition} has min_nodes: 0",
            "raise its min_nodes, or take scope: job",
        )
