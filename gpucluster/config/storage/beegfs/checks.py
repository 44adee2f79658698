"""Rules about a parallel file system in the memory of nodes."""

from __future__ import annotations

from gpucluster.addresses import in_s3, within
from gpucluster.config.checks.partitions import known_types
from gpucluster.config.document import Finding, Path
from gpucluster.config.models import ClusterConfig
from gpucluster.config.nodes import Partition
from gpucluster.config.storage import BeegfsRam
from gpucluster.config.storage.beegfs.sizes import memory_gib, metadata_gib
from gpucluster.config.validators import Findings, Validators
from gpucluster.hardware.instances import InstanceType

BEEGFS = "BeeGFS in memory"
validator = Validators(BEEGFS)
DOC = "https://doc.beegfs.io/latest"


def _serving(config: ClusterConfig, storage: BeegfsRam) -> Partition | None:
    """None if the partition does not exist."""
    named = (each for each in config.every_partition if each.__dict__.get("name") == storage.partition)
    return next(named, None)


def _types(config: ClusterConfig, storage: BeegfsRam) -> list[InstanceType]:
    """The instance types of its nodes."""
    partition = _serving(config, storage)
    return [type_ for _, type_ in known_types(partition)] if partition else []


@validator("beegfs-partition-exists", "man sbatch.1: --partition: invalid partition specified")
def beegfs_partition_exists(storage: BeegfsRam, path: Path, config: ClusterConfig) -> Findings:
    """Its partition is one of the cluster's."""
    names = [partition.name for partition in config.every_partition]
    if storage.partition not in names:
        yield Finding(
            (*path, "partition"), f"there is no partition {storage.partition!r}", f"there are: {', '.join(names)}"
        )


@validator("beegfs-fits-memory", "man tmpfs.5: size")
def beegfs_fits_memory(storage: BeegfsRam, path: Path, config: ClusterConfig) -> Findings:
    """gib_per_node and the metadata's memory are less than the memory of a node."""
    for type_ in _types(config, storage):
        if memory_gib(storage.gib_per_node) >= type_.memory_gib:
            metadata = metadata_gib(storage.gib_per_node)
            yield Finding(
                (*path, "gib_per_node"),
                f"must be less than the {type_.memory_gib} GiB of {type_.name}, got {storage.gib_per_node} "
                f"and {metadata} for metadata",
            )


@validator(
    "beegfs-cluster-needs-static-nodes",
    "man slurm.conf.5: SuspendTime: idle nodes are powered down, and their memory with them",
)
def beegfs_cluster_needs_static_nodes(storage: BeegfsRam, path: Path, config: ClusterConfig) -> Findings:
    """With scope: cluster, its partition has nodes that are always on."""
    serving = _serving(config, storage)
    if storage.scope == "cluster" and serving and serving.min_nodes == 0:
        yield Finding(
            (*path, "scope"),
            f"'cluster' needs nodes that are always on, but {storage.partition} has min_nodes: 0",
            "raise its min_nodes, or write scope: job",
        )


@validator("beegfs-folder-is-there", "man mount.8: a path leads to where its file system is mounted")
def beegfs_folder_is_there(storage: BeegfsRam, path: Path, config: ClusterConfig) -> Findings:
    """A source or export that is a folder lies on an FSx or EFS of the cluster: those outlive the nodes that serve."""
    mounts = [each.mount for each in config.storage if each.at_boot]
    for key, place in (("source", storage.source), ("export", storage.export)):
        if place and not in_s3(place) and not any(within(place, mount) for mount in mounts):
            yield Finding(
                (*path, key),
                f"{place} is not on a file system of the cluster",
                f"there are: {', '.join(mounts)}" if mounts else "use s3://bucket/prefix, or add an fsx-lustre",
            )


@validator(
    "beegfs-only-one", f"{DOC}/advanced_topics/network_configuration.html: ports 8003, 8004, 8005, 8008 of each service"
)
def beegfs_only_one(config: ClusterConfig) -> Findings:
    """There is at most one BeeGFS: the services of a second one would need the same ports."""
    found = [index for index, storage in enumerate(config.storage) if isinstance(storage, BeegfsRam)]
    for index in found[1:]:
        yield Finding(
            ("storage", index, "type"),
            f"storage[{found[0]}] is already beegfs-ram, and a cluster can have only one",
            "use directories of the first one",
        )


@validator(
    "beegfs-not-on-spot",
    "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-interruptions.html: two minutes' notice",
    level="warning",
)
def beegfs_not_on_spot(storage: BeegfsRam, path: Path, config: ClusterConfig) -> Findings:
    """Its nodes are not spot instances: if one node is lost, so is every file that is striped over it."""
    for partition in config.partitions:
        if partition.name == storage.partition and partition.purchase == "spot":
            yield Finding(
                (*path, "partition"),
                f"AWS may interrupt spot nodes of {partition.name}: the files in their memory are then lost",
                "use parameter_servers or an on-demand partition, or write scope: job",
            )


@validator(
    "beegfs-client-kernel",
    f"{DOC}/system_design/system_requirements.html: supported kernels; "
    "https://docs.aws.amazon.com/dlami/latest/devguide/appendix-ami-release-notes.html: 6.17, then 7.0",
    level="warning",
)
def beegfs_client_kernel(storage: BeegfsRam, path: Path, config: ClusterConfig) -> Findings:
    """The image's kernel is one that BeeGFS's client is known to build for; the Deep Learning AMI's is newer."""
    images = {partition.image or config.software.image for partition in config.partitions}
    images.add(config.head_node.image or config.software.image)
    if any(image.startswith("dlami-") for image in images):
        yield Finding(
            (*path, "type"),
            "BeeGFS's client may not compile for the Deep Learning AMI's kernel (6.17, later 7.0)",
            "use BeeGFS 8.3.1 or later for kernels after 6.12, or your own AMI with kernel 6.8 for 7.4.6 or later",
        )


@validator("home-not-in-memory", "man tmpfs.5: contents are lost with the mount", section="Mounts")
def home_not_in_memory(storage: BeegfsRam, path: Path, config: ClusterConfig) -> Findings:
    """/home is not on a file system in memory."""
    if storage.mount == "/home":
        yield Finding((*path, "mount"), "/home in the nodes' memory would be lost with the nodes", "mount it at /ram")
