"""Rules about EBS volumes: sizes, IOPS and throughput of each type, and what a volume that exists rules out."""

from __future__ import annotations

from typing import NamedTuple

from gpucluster.config.document import Finding, Path
from gpucluster.config.models import ClusterConfig
from gpucluster.config.storage.ebs import CREATE, Ebs
from gpucluster.config.validators import Findings, Validators

validator = Validators("Volumes")

TYPES = "https://docs.aws.amazon.com/ebs/latest/userguide/ebs-volume-types.html"
MOST = 10
OF_NEW = ("gib", "volume_type", "iops", "throughput_mibps", "snapshot_id", "on_delete")


class Range(NamedTuple):
    least: int
    most: int

    def __str__(self) -> str:
        return f"{self.least} to {self.most}"


# EC2's CreateVolume, as botocore 1.44 has it.
GIB = {
    "gp3": Range(1, 65536),
    "gp2": Range(1, 16384),
    "io2": Range(4, 65536),
    "io1": Range(4, 16384),
    "st1": Range(125, 16384),
    "sc1": Range(125, 16384),
}
IOPS = {"gp3": Range(3000, 80000), "io2": Range(100, 256000), "io1": Range(100, 64000)}
PER_GIB = {"gp3": 500, "io2": 1000, "io1": 50}
"""The most IOPS for each GiB: EBS's user guide, volume types."""
ANY_SIZE = {"gp3": 3000}
"""IOPS that a volume of any size has."""
THROUGHPUT = Range(125, 2000)
IOPS_PER_MIBPS = 4
"""gp3 gives at most 0.25 MiB/s for each of its IOPS."""


@validator("ebs-size", f"{CREATE}: Size")
def size(storage: Ebs, path: Path, config: ClusterConfig) -> Findings:
    """A volume's size is one that its type allows."""
    allowed = GIB[storage.kind]
    if storage.gib is not None and not allowed.least <= storage.gib <= allowed.most:
        yield Finding((*path, "gib"), f"must be {allowed} for {storage.kind}, got {storage.gib}")
    elif storage.gib is None and (storage.size_gib or allowed.least) < allowed.least:
        yield Finding((*path, "volume_type"), f"{storage.kind} needs gib: {allowed}, and the default is 100")


@validator("ebs-iops", f"{CREATE}: Iops; {TYPES}: ratio of IOPS to volume size")
def iops(storage: Ebs, path: Path, config: ClusterConfig) -> Findings:
    """iops is given for io1 and io2, optional for gp3, and within what the type and the size allow."""
    allowed, got = IOPS.get(storage.kind), storage.iops
    if got is None:
        if storage.kind in ("io1", "io2") and storage.volume_id is None:
            yield Finding((*path, "volume_type"), f"{storage.kind} needs iops: {allowed}")
    elif allowed is None:
        yield Finding((*path, "iops"), f"not allowed for {storage.kind}", "use gp3, io2 or io1")
    elif not allowed.least <= got <= allowed.most:
        yield Finding((*path, "iops"), f"must be {allowed} for {storage.kind}, got {got}")
    elif storage.size_gib and got > (
        most := max(ANY_SIZE.get(storage.kind, 0), PER_GIB[storage.kind] * storage.size_gib)
    ):
        said = f"{storage.size_gib} GiB of {storage.kind} have at most {most} IOPS, got {got}"
        yield Finding((*path, "iops"), said, f"write gib: {-(-got // PER_GIB[storage.kind])} or more")


@validator("ebs-throughput", f"{CREATE}: Throughput; {TYPES}: 0.25 MiB/s per provisioned IOPS")
def throughput(storage: Ebs, path: Path, config: ClusterConfig) -> Findings:
    """throughput_mibps is for gp3, from 125 to 2000, and at most a quarter of its IOPS."""
    got = storage.throughput_mibps
    if got is None:
        return
    if storage.kind != "gp3":
        yield Finding((*path, "throughput_mibps"), f"not allowed for {storage.kind}", "use gp3, or remove it")
    elif not THROUGHPUT.least <= got <= THROUGHPUT.most:
        yield Finding((*path, "throughput_mibps"), f"must be {THROUGHPUT}, got {got}")
    elif got * IOPS_PER_MIBPS > (storage.iops or 3000):
        said = f"{got} MiB/s need {got * IOPS_PER_MIBPS} IOPS, got {storage.iops or 3000}"
        yield Finding((*path, "throughput_mibps"), said, f"write iops: {got * IOPS_PER_MIBPS} or more")


@validator("ebs-exists-or-new", f"{CREATE}: what a new volume has")
def exists_or_new(storage: Ebs, path: Path, config: ClusterConfig) -> Findings:
    """Beside volume_id, which names a volume that exists, no key of a new volume is allowed."""
    for key in OF_NEW:
        if storage.volume_id and getattr(storage, key) is not None:
            said = f"is a key of a new volume, but volume_id names {storage.volume_id}, which the cluster never changes"
            yield Finding((*path, key), said, "remove it, or remove volume_id: EBS then creates a volume")


@validator(
    "ebs-mounted-once",
    "https://docs.aws.amazon.com/ebs/latest/userguide/ebs-attaching-volume.html: one instance; man mount.8",
)
def mounted_once(config: ClusterConfig) -> Findings:
    """No two mounts name the same volume."""
    first: dict[str, str] = {}
    for index, storage in enumerate(config.storage):
        if not isinstance(storage, Ebs) or not storage.volume_id:
            continue
        known = first.setdefault(storage.volume_id, storage.mount)
        if known != storage.mount:
            said = f"{storage.volume_id} is mounted at {known} already"
            yield Finding(("storage", index, "volume_id"), said, "remove one of the two entries")


@validator("ebs-count", "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/device_naming.html: /dev/sd[f-p]")
def count(config: ClusterConfig) -> Findings:
    """A cluster has at most 10 EBS volumes beside that of /home: the head node has device names for no more."""
    found = [index for index, storage in enumerate(config.storage) if isinstance(storage, Ebs)]
    if len(found) > MOST:
        said = f"at most {MOST} entries of type: ebs, got {len(found)}"
        yield Finding(("storage", found[MOST], "type"), said, "use larger volumes, or efs")


@validator("home-not-on-ebs", "man exports.5: the head node's data volume holds /home")
def home_not_on_ebs(storage: Ebs, path: Path, config: ClusterConfig) -> Findings:
    """/home is not on an EBS volume of its own: head-nfs is one, with snapshots and its size in head_node."""
    if storage.mount == "/home":
        yield Finding(
            (*path, "type"),
            "/home on an EBS volume is type: head-nfs",
            "write type: head-nfs, its size as head_node.volume_gib, and a snapshot to begin with as snapshot_id there",
        )
