"""Where file systems are mounted, and what may hold /home."""

from __future__ import annotations

from gpucluster.config import construct_ids
from gpucluster.config.checks.names import LOGICAL_IDS
from gpucluster.config.document import Finding, Path
from gpucluster.config.models import BeegfsRam, ClusterConfig, Efs, FsxLustre, HeadNfs, Storage
from gpucluster.config.validators import Findings, validator

MOUNTS = "Mounts"

DISK_ALARMS = ("/root-disk", "/home-disk")
"""The head node's alarms are <cluster>-root-disk-full and -home-disk-full, those of Lustre <cluster>-<mount>-full."""


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
    "mounts-apart",
    section=MOUNTS,
    each=ClusterConfig,
    source="man mount.8: what a mount point held before is hidden; man systemd.mount.5: order follows the paths",
)
def mounts_apart(config: ClusterConfig) -> Findings:
    """No file system is mounted inside another one: each has to be there without the other, and /home is always one."""
    mounts = {storage.mount: None for storage in config.storage} | {"/home": None}
    for index, storage in enumerate(config.storage):
        outer = next((mount for mount in mounts if storage.mount.startswith(mount + "/")), None)
        if outer:
            yield Finding(
                ("storage", index, "mount"),
                f"{storage.mount} is inside {outer}, another file system",
                "mount it beside it, such as /" + storage.mount.strip("/").replace("/", "-"),
            )


@validator(
    "mounts-have-own-names",
    section=MOUNTS,
    each=ClusterConfig,
    source=f"{LOGICAL_IDS}: logical ids are alphanumeric and unique; "
    "https://docs.aws.amazon.com/systems-manager/latest/APIReference/API_PutParameter.html: Name; "
    "error ParameterAlreadyExists",
)
def mounts_have_own_names(config: ClusterConfig) -> Findings:
    """Mounts differ in more than case and . / -: parameters, alarms and ids in the template are called after them."""
    first: dict[str, str] = {}
    for index, storage in enumerate(config.storage):
        if isinstance(storage, HeadNfs):  # nothing is called after it: the head node's volume is there in any case
            continue
        place, mount = ("storage", index, "mount"), storage.mount
        name = construct_ids.of_mount(mount).lower()  # an alarm's id keeps capitals at the beginning of a part alone
        if first.setdefault(name, mount) != mount:
            yield Finding(place, f"{mount} is too like {first[name]}: both are called {name}")
        taken = _name_taken(config, storage)
        if taken:
            yield Finding(place, f"{mount} is called as {taken}", "name it otherwise")


def _name_taken(config: ClusterConfig, storage: Storage) -> str | None:
    """By what stands beside the file systems, or among their alarms."""
    if config.s3_access and construct_ids.of_mount(storage.mount) == construct_ids.JOB_ROLE:
        return "the role of jobs is, which s3_access makes"
    if isinstance(storage, FsxLustre) and storage.mount in DISK_ALARMS:
        return "the head node's disk is, of which there is an alarm"
    ids = [construct_ids.of_mount(each.mount) for each in config.storage]
    if set(construct_ids.MAIN) <= set(ids) and construct_ids.of_mount(storage.mount) == construct_ids.MAIN[-1]:
        return "/default is to CDK: it takes one of these names"
    return None


@validator(
    "home-not-in-memory",
    section=MOUNTS,
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


@validator(
    "home-not-on-lustre",
    section=MOUNTS,
    each=FsxLustre,
    source="https://docs.aws.amazon.com/fsx/latest/LustreGuide/install-lustre-client.html: "
    "the client is installed on a running node, and /home is there before",
)
def home_not_on_lustre(storage: FsxLustre, path: Path, config: ClusterConfig) -> Findings:
    """/home is on the head node's volume or on EFS, which nodes can mount before anything is installed."""
    if storage.mount == "/home":
        yield Finding((*path, "mount"), "/home cannot be on FSx for Lustre", "mount it at /fsx; /home: head-nfs or efs")


@validator(
    "home-outlives-cluster",
    section=MOUNTS,
    each=Efs,
    level="warning",
    source="AWS::EFS::FileSystem: DeletionPolicy Delete",
)
def home_outlives_cluster(storage: Efs, path: Path, config: ClusterConfig) -> Findings:
    """/home on EFS stays when the cluster is deleted."""
    if storage.mount == "/home" and storage.on_delete == "delete":
        yield Finding(
            (*path, "on_delete"), "everybody's home directory is deleted with the cluster", "on_delete: retain keeps it"
        )
