"""Rules about mount points and about /home."""

from __future__ import annotations

from gpucluster.config import construct_ids
from gpucluster.config.checks.names import LOGICAL_IDS
from gpucluster.config.document import Finding, Path
from gpucluster.config.models import ClusterConfig
from gpucluster.config.storage import Efs, FsxLustre, Storage
from gpucluster.config.validators import Findings, Validators

validator = Validators("Mounts")

DISK_ALARMS = ("/root-disk", "/home-disk")
"""The head node's alarms are <cluster>-root-disk-full and -home-disk-full, those of Lustre <cluster>-<mount>-full."""


@validator("mount-unique", "man mount.8: a second mount hides the first")
def mount_unique(config: ClusterConfig) -> Findings:
    """No two file systems are mounted at the same place."""
    first: dict[str, int] = {}
    for index, storage in enumerate(config.storage):
        mount = storage.__dict__.get("mount")
        if mount in first:
            yield Finding(("storage", index, "mount"), f"{mount} is already the mount of storage[{first[mount]}]")
        elif mount is not None:
            first[mount] = index


@validator(
    "mounts-apart",
    "man mount.8: what a mount point held before is hidden; man systemd.mount.5: order follows the paths",
)
def mounts_apart(config: ClusterConfig) -> Findings:
    """No file system is mounted inside another one: each must work without the other. /home always exists."""
    mounts = {storage.mount: None for storage in config.storage} | {"/home": None}
    for index, storage in enumerate(config.storage):
        outer = next((mount for mount in mounts if storage.mount.startswith(mount + "/")), None)
        if outer:
            yield Finding(
                ("storage", index, "mount"),
                f"{storage.mount} is inside {outer}, another file system",
                "mount it next to it, such as /" + storage.mount.strip("/").replace("/", "-"),
            )


@validator(
    "mounts-have-own-names",
    f"{LOGICAL_IDS}: logical ids are alphanumeric and unique; "
    "https://docs.aws.amazon.com/systems-manager/latest/APIReference/API_PutParameter.html: Name; "
    "error ParameterAlreadyExists",
)
def mounts_have_own_names(config: ClusterConfig) -> Findings:
    """Mounts differ in more than case and . / -: parameters, alarms and IDs in the template are named after them."""
    first: dict[str, str] = {}
    for index, storage in enumerate(config.storage):
        if storage.on_volume:  # no resource is named after it: the head node's volume always exists
            continue
        place, mount = ("storage", index, "mount"), storage.mount
        name = construct_ids.of_mount(mount).lower()  # an alarm's id keeps capitals only at the beginning of a part
        if first.setdefault(name, mount) != mount:
            yield Finding(place, f"{mount} is too similar to {first[name]}: both would get the name {name}")
        taken = _name_taken(config, storage)
        if taken:
            yield Finding(place, f"{mount} would have the same name as {taken}", "choose another name")


def _name_taken(config: ClusterConfig, storage: Storage) -> str | None:
    """The other resource that already has the name, or None."""
    if config.jobs_have_role and construct_ids.of_mount(storage.mount) == construct_ids.JOB_ROLE:
        cause = "s3_access" if config.s3_access else "software.cache"
        return f"the role of jobs, which {cause} creates"
    if storage.watched and storage.mount in DISK_ALARMS:
        return "the head node's disk, which has an alarm"
    ids = [construct_ids.of_mount(each.mount) for each in config.storage]
    if set(construct_ids.MAIN) <= set(ids) and construct_ids.of_mount(storage.mount) == construct_ids.MAIN[-1]:
        return "/default: CDK accepts only one of these two names"
    return None


@validator("home-outlives-cluster", "AWS::EFS::FileSystem: DeletionPolicy Delete", level="warning")
def home_outlives_cluster(storage: Efs | FsxLustre, path: Path, config: ClusterConfig) -> Findings:
    """/home on EFS or FSx stays when the cluster is deleted."""
    if storage.mount == "/home" and storage.on_delete == "delete":
        yield Finding(
            (*path, "on_delete"), "all home directories are deleted with the cluster", "on_delete: retain keeps them"
        )
