"""BeeGFS in the nodes' memory, as text: configuration files, sizes, packages, and the differences between 7.4 and 8.

Pure. Values that only a node knows are placeholders between `@` in the files, which
bootstrap/steps/storage/beegfs_files.sh replaces: the management node, the first network interface,
the folder of management's records.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpucluster.config.storage import BeegfsRam
from gpucluster.config.storage.beegfs.sizes import metadata_gib
from gpucluster.layout import Layout, Partition

MIB_PER_GIB = 1024
INODES_PER_GIB = 65536
"""One for each 16 KiB. tmpfs would give half as many as the machine has pages, whatever the size of the target; `0`,
no limit, BeeGFS takes for none left."""
LOW, EMERGENCY = 8, 50
"""A target with less than this part of itself free is used less, and then only where there is no other. BeeGFS's own
limits, 1 TiB and 20 GiB in 7.4, 512 GiB and 10 GiB in 8, would have every target in memory short of space from the
beginning."""


@dataclass(frozen=True)
class Release:
    """The properties of a version of BeeGFS. `repository`: beegfs.io/release/beegfs_<repository>."""

    version: str
    repository: str
    management: tuple[str, ...]
    server: tuple[str, ...]
    client: tuple[str, ...]
    client_services: tuple[str, ...]
    """In the order in which they start."""
    client_control: str
    """`<this> rebuild` compiles the kernel module."""
    files: Mapping[str, str]
    """Below /etc/beegfs -> its template in templates/beegfs/."""
    list_servers: tuple[str, ...]
    """A prefix: the kind of server, meta or storage, is appended."""


_COMMON = {
    "beegfs-meta.conf": "meta.conf.j2",
    "beegfs-storage.conf": "storage.conf.j2",
    "beegfs-client.conf": "client.conf.j2",
    "beegfs-mounts.conf": "mounts.conf.j2",
    "interfaces": "interfaces.j2",
}
RELEASES: Mapping[str, Release] = {
    # 7.4.6 compiles for kernels up to 6.11. Its management stores a folder; helperd resolves names for the client.
    "7.4": Release(
        version="7.4",
        repository="7.4.6",
        management=("beegfs-mgmtd", "beegfs-utils"),
        server=("beegfs-meta", "beegfs-storage"),
        client=("beegfs-client", "beegfs-helperd"),
        client_services=("beegfs-helperd", "beegfs-client"),
        client_control="/etc/init.d/beegfs-client",
        files={**_COMMON, "beegfs-mgmtd.conf": "mgmtd.conf.j2", "beegfs-helperd.conf": "helperd.conf.j2"},
        list_servers=("beegfs-ctl", "--listnodes", "--nodetype="),
    ),
    # 8.3.1 is the first that supports kernels from 6.14 on. Its management uses a database and needs a licence.
    "8": Release(
        version="8",
        repository="8.3",
        management=("beegfs-mgmtd", "libbeegfs-license", "beegfs-tools"),
        server=("beegfs-meta", "beegfs-storage"),
        client=("beegfs-client",),
        client_services=("beegfs-client",),
        client_control="/opt/beegfs/sbin/beegfs-client",
        files={**_COMMON, "beegfs-mgmtd.toml": "mgmtd.toml.j2"},
        list_servers=("beegfs", "node", "list", "--node-type="),
    ),
}


@dataclass(frozen=True)
class Limits:
    """The free MiB and inodes below which BeeGFS treats a target as low on space, or as an emergency."""

    low_mib: int
    emergency_mib: int
    low_inodes: int
    emergency_inodes: int


def limits(target_gib: int) -> Limits:
    """Limits in proportion to the target's size. The target is empty at first."""
    mib, inodes = target_gib * MIB_PER_GIB, target_gib * INODES_PER_GIB
    return Limits(mib // LOW, mib // EMERGENCY, inodes // LOW, inodes // EMERGENCY)


def servers(layout: Layout, storage: BeegfsRam) -> list[str]:
    """With scope: cluster, the nodes that are always on. A job's nodes serve the job's file system."""
    if storage.scope == "job":
        return []
    always_on = layout.partition(storage.partition).min_nodes
    return [f"{storage.partition}-{number}" for number in range(1, always_on + 1)]


def role_of(partition: Partition, ram: BeegfsRam | None) -> str:
    """The role of its nodes in the cluster's BeeGFS."""
    if ram is None or (ram.scope == "job" and ram.partition != partition.name):
        return "none"
    if ram.partition != partition.name:
        return "client"
    return "job" if ram.scope == "job" else "server"


def role_of_head(ram: BeegfsRam | None) -> str:
    """A job's nodes manage its file system themselves."""
    return "management" if ram and ram.scope == "cluster" else "none"


def values(storage: BeegfsRam) -> dict[str, object]:
    """Values for the templates of the configuration files and of bootstrap/beegfs.sh.j2."""
    metadata = metadata_gib(storage.gib_per_node)
    return {
        "release": RELEASES[storage.version],
        "mount": storage.mount,
        "parameter": storage.parameter,
        "storage_gib": storage.gib_per_node,
        "metadata_gib": metadata,
        "storage_limits": limits(storage.gib_per_node),
        "metadata_limits": limits(metadata),
        "storage_inodes": storage.gib_per_node * INODES_PER_GIB,
        "metadata_inodes": metadata * INODES_PER_GIB,
    }


def node_settings(layout: Layout, storage: BeegfsRam) -> dict[str, object]:
    """beegfs.json, for the node programs. If it changes, the head node creates the file system anew."""
    return {
        "mount": storage.mount,
        "scope": storage.scope,
        "partition": storage.partition,
        "servers": servers(layout, storage),
        "source": storage.source,
        "export": storage.export,
        "version": storage.version,
        "gib_per_node": storage.gib_per_node,
    }
