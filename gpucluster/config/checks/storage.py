"""Rules about the entries of `storage`. The steps and tiers are those of the FSx API."""

from __future__ import annotations

from gpucluster.config.document import Finding, Path
from gpucluster.config.models import PARAMETER_SERVERS, BeegfsRam, ClusterConfig, FsxLustre, HeadNfs
from gpucluster.config.validators import Findings, validator
from gpucluster.instances import INSTANCE_TYPES

FSX = "FSx for Lustre"
BEEGFS = "BeeGFS in memory"
MOUNTS = "Mounts"

FSX_API = "https://docs.aws.amazon.com/fsx/latest/APIReference/API_CreateFileSystemLustreConfiguration.html"
FSX_CAPACITY = "https://docs.aws.amazon.com/fsx/latest/APIReference/API_CreateFileSystem.html: StorageCapacity"
FSX_LINKS = "https://docs.aws.amazon.com/fsx/latest/APIReference/API_CreateDataRepositoryAssociation.html"

TIERS_MBPS_PER_TIB = {
    "persistent-1": (50, 100, 200),
    "persistent-2": (125, 250, 500, 1000),
    "scratch-1": (),
    "scratch-2": (),
}
"""For SSD. Scratch file systems have no tier to choose."""

STEP_GIB = {"persistent-1": 2400, "persistent-2": 2400, "scratch-1": 3600, "scratch-2": 2400}
"""Capacities are 1200, 2400, then steps of this."""


@validator("mount-unique", section=MOUNTS, each=ClusterConfig, source="man mount.8: a second mount hides the first")
def mount_unique(config: ClusterConfig) -> Findings:
    """No two file systems are mounted at the same place."""
    first: dict[str, int] = {}
    for index, storage in enumerate(config.storage):
        mount = storage.__dict__.get("mount")
        if mount in first:
            yield Finding(("storage", index, "mount"), f"{mount} is the mount of storage[{first[mount]}] already")
        elif mount is not None:
            first[mount] = index


@validator(
    "home-not-in-memory",
    section=BEEGFS,
    each=BeegfsRam,
    source="man tmpfs.5: contents are lost with the mount",
)
def home_not_in_memory(storage: BeegfsRam, path: Path, config: ClusterConfig) -> Findings:
    """/home is not on a file system in memory."""
    if storage.mount == "/home":
        yield Finding((*path, "mount"), "/home in memory would be lost with the nodes", "mount it at /ram")


@validator(
    "head-nfs-shares-home",
    section=MOUNTS,
    each=HeadNfs,
    source="man exports.5: the head node exports one directory",
)
def head_nfs_shares_home(storage: HeadNfs, path: Path, config: ClusterConfig) -> Findings:
    """head-nfs is mounted at /home: it is the head node's volume, which holds nothing else."""
    if storage.mount != "/home":
        yield Finding(
            (*path, "mount"),
            f"head-nfs shares /home only, got {storage.mount}",
            "a directory under /home is on every node",
        )


@validator("fsx-capacity-step", section=FSX, each=FsxLustre, source=FSX_CAPACITY)
def fsx_capacity_step(storage: FsxLustre, path: Path, config: ClusterConfig) -> Findings:
    """Capacity is 1200 or 2400 GiB, or a multiple of 2400 (scratch-1: 3600)."""
    step = STEP_GIB[storage.deployment]
    if storage.capacity_gib in (1200, 2400) or (storage.capacity_gib > 2400 and storage.capacity_gib % step == 0):
        return
    above = next(size for size in (1200, 2400, -(-storage.capacity_gib // step) * step) if size >= storage.capacity_gib)
    yield Finding(
        (*path, "capacity_gib"),
        f"must be 1200, 2400 or a multiple of {step} for {storage.deployment}, got {storage.capacity_gib}",
        f"the next size up is {above}",
    )


@validator("fsx-throughput-tier", section=FSX, each=FsxLustre, source=f"{FSX_API}: PerUnitStorageThroughput")
def fsx_throughput_tier(storage: FsxLustre, path: Path, config: ClusterConfig) -> Findings:
    """Throughput is one of its deployment's tiers: persistent-1 50, 100, 200; persistent-2 125, 250, 500, 1000."""
    got, tiers = storage.throughput_mbps_per_tib, TIERS_MBPS_PER_TIB[storage.deployment]
    if got is None or not tiers or got in tiers:
        return
    *most, last = map(str, tiers)
    yield Finding(
        (*path, "throughput_mbps_per_tib"), f"must be {', '.join(most)} or {last} for {storage.deployment}, got {got}"
    )


@validator("fsx-scratch-has-no-tier", section=FSX, each=FsxLustre, source=f"{FSX_API}: PerUnitStorageThroughput")
def fsx_scratch_has_no_tier(storage: FsxLustre, path: Path, config: ClusterConfig) -> Findings:
    """A scratch file system takes no throughput."""
    if storage.throughput_mbps_per_tib is not None and not TIERS_MBPS_PER_TIB[storage.deployment]:
        yield Finding(
            (*path, "throughput_mbps_per_tib"),
            f"does nothing for {storage.deployment}",
            "leave it out: scratch has one speed",
        )


@validator("fsx-scratch-1-has-no-links", section=FSX, each=FsxLustre, source=FSX_LINKS)
def fsx_scratch_1_has_no_links(storage: FsxLustre, path: Path, config: ClusterConfig) -> Findings:
    """Data repositories are linked to any deployment but scratch-1."""
    if storage.deployment == "scratch-1" and storage.data_repositories:
        yield Finding((*path, "data_repositories"), "cannot be linked to scratch-1", "take deployment: scratch-2")


@validator("fsx-links-apart", section=FSX, each=FsxLustre, source=f"{FSX_LINKS}: FileSystemPath")
def fsx_links_apart(storage: FsxLustre, path: Path, config: ClusterConfig) -> Findings:
    """No linked directory holds another."""
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


@validator(
    "beegfs-partition-exists",
    section=BEEGFS,
    each=BeegfsRam,
    source="man sbatch.1: --partition: invalid partition specified",
)
def beegfs_partition_exists(storage: BeegfsRam, path: Path, config: ClusterConfig) -> Findings:
    """Its partition is one of the cluster's."""
    names = [partition.name for partition in config.partitions] + [PARAMETER_SERVERS] * bool(config.parameter_servers)
    if storage.partition not in names:
        yield Finding(
            (*path, "partition"), f"there is no partition {storage.partition!r}", f"there are: {', '.join(names)}"
        )


@validator("beegfs-fits-memory", section=BEEGFS, each=BeegfsRam, source="man tmpfs.5: size")
def beegfs_fits_memory(storage: BeegfsRam, path: Path, config: ClusterConfig) -> Findings:
    """gib_per_node is less than the memory of the nodes."""
    types, _ = _serving(config, storage) or ([], 0)
    for type_ in (INSTANCE_TYPES[name] for name in types if name in INSTANCE_TYPES):
        if storage.gib_per_node >= type_.memory_gib:
            yield Finding(
                (*path, "gib_per_node"),
                f"must be less than the {type_.memory_gib} GiB that {type_.name} has, got {storage.gib_per_node}",
            )


@validator(
    "beegfs-cluster-needs-static-nodes",
    section=BEEGFS,
    each=BeegfsRam,
    source="man slurm.conf.5: SuspendTime: idle nodes are powered down, and their memory with them",
)
def beegfs_cluster_needs_static_nodes(storage: BeegfsRam, path: Path, config: ClusterConfig) -> Findings:
    """With scope: cluster, its partition has nodes that are always on."""
    serving = _serving(config, storage)
    if storage.scope == "cluster" and serving and serving[1] == 0:
        yield Finding(
            (*path, "scope"),
            f"'cluster' needs nodes that are always on, and {storage.partition} has min_nodes: 0",
            "raise its min_nodes, or take scope: job",
        )
