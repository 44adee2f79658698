"""Rules about file systems that exist already."""

from __future__ import annotations

from gpucluster.config.document import Finding, Path
from gpucluster.config.models import ClusterConfig
from gpucluster.config.storage import Existing, ExistingEfs
from gpucluster.config.validators import Findings, Validators

validator = Validators("Mounts")
REACHED = "https://docs.aws.amazon.com/fsx/latest/LustreGuide/mounting-on-premises.html: peering, transit gateway"


@validator("existing-in-own-vpc", REACHED)
def existing_in_own_vpc(storage: Existing, path: Path, config: ClusterConfig) -> Findings:
    """A file system that exists needs network.vpc_id: no node of a new VPC reaches it."""
    if config.network.vpc_id is None:
        yield Finding(
            (*path, storage.id_key),
            f"nodes of a new VPC do not reach {storage.its_id}",
            "name the file system's VPC, or one that is routed to it: network: {vpc_id: vpc-…, subnet_id: subnet-…}",
        )


@validator("existing-mounted-once", "man mount.8: a second mount of the same file system shows the same files")
def existing_mounted_once(config: ClusterConfig) -> Findings:
    """No two mounts name the same file system."""
    first: dict[str, str] = {}
    for index, storage in enumerate(config.storage):
        if not isinstance(storage, Existing):
            continue
        known = first.setdefault(storage.its_id, storage.mount)
        if known != storage.mount:
            said = f"{storage.its_id} is mounted at {known} already"
            yield Finding(("storage", index, storage.id_key), said, "remove one of the two entries")


@validator(
    "home-not-through-access-point",
    "https://docs.aws.amazon.com/efs/latest/ug/efs-access-points.html: it overrides the client's user",
)
def home_not_through_access_point(storage: ExistingEfs, path: Path, config: ClusterConfig) -> Findings:
    """/home is not mounted through an access point, which may give every file the same owner."""
    if storage.mount == "/home" and storage.access_point_id:
        said = "each user needs files of their own in /home, and an access point may give all files one owner"
        yield Finding((*path, "access_point_id"), said, "remove it, or mount it next to /home")
