"""Rules about FSx for Lustre besides its steps and tiers: EFA, metadata, backups, keys, regions."""

from __future__ import annotations

from gpucluster.config.document import Finding, Path
from gpucluster.config.models import ClusterConfig
from gpucluster.config.regions import WITHOUT_FSX, partition_of
from gpucluster.config.storage import FsxLustre
from gpucluster.config.storage.fsx.lustre import EFA_STEP_GIB, throughput_mbps_per_tib
from gpucluster.config.storage.fsx.sizes import FSX, FSX_API
from gpucluster.config.validators import Findings, Validators

validator = Validators(FSX)

GUIDE = "https://docs.aws.amazon.com/fsx/latest/LustreGuide"

METADATA_IOPS = (1500, 3000, 6000, *range(12000, 192001, 12000))
BACKUP_DAYS = 90


@validator("fsx-efa-needs-persistent-2", f"{FSX_API}: EfaEnabled")
def efa_needs_persistent_2(storage: FsxLustre, path: Path, config: ClusterConfig) -> Findings:
    """EFA is for persistent-2."""
    if storage.efa and storage.deployment != "persistent-2":
        yield Finding(
            (*path, "efa"), f"needs deployment: persistent-2, got {storage.deployment}", "or remove efa, to use TCP"
        )


@validator("fsx-efa-capacity-step", f"{GUIDE}/increase-storage-capacity.html: EFA-enabled file systems")
def efa_capacity_step(storage: FsxLustre, path: Path, config: ClusterConfig) -> Findings:
    """With EFA, capacity is a multiple of 4800, 9600, 19200 or 38400 GiB for 1000, 500, 250 or 125 MB/s per TiB."""
    if not storage.efa or storage.deployment != "persistent-2":
        return
    throughput = throughput_mbps_per_tib(storage)
    step = EFA_STEP_GIB.get(throughput or 0)
    if step is None or storage.capacity_gib % step == 0:
        return
    above = -(-storage.capacity_gib // step) * step
    fits = next((tier for tier, gib in EFA_STEP_GIB.items() if storage.capacity_gib % gib == 0), None)
    hint = f", or keep the size with throughput_mbps_per_tib: {fits}" if fits else ""
    yield Finding(
        (*path, "capacity_gib"),
        f"with EFA and {throughput} MB/s per TiB it must be a multiple of {step}, got {storage.capacity_gib}",
        f"the next size up is {above}{hint}",
    )


@validator(
    "fsx-metadata-iops-values",
    "https://docs.aws.amazon.com/fsx/latest/APIReference/API_CreateFileSystemLustreMetadataConfiguration.html: Iops",
)
def metadata_iops_values(storage: FsxLustre, path: Path, config: ClusterConfig) -> Findings:
    """Metadata IOPS are 1500, 3000, 6000, 12000 or a multiple of 12000 up to 192000."""
    got = storage.metadata_iops
    if got is not None and got not in METADATA_IOPS:
        above = next((value for value in METADATA_IOPS if value > got), METADATA_IOPS[-1])
        yield Finding(
            (*path, "metadata_iops"),
            f"must be 1500, 3000, 6000, 12000 or a multiple of 12000 up to 192000, got {got}",
            f"write metadata_iops: {above}, or remove it: AWS then derives it from the capacity",
        )


@validator("fsx-metadata-needs-persistent-2", f"{FSX_API}: MetadataConfiguration")
def metadata_needs_persistent_2(storage: FsxLustre, path: Path, config: ClusterConfig) -> Findings:
    """Metadata IOPS are for persistent-2."""
    if storage.metadata_iops is not None and storage.deployment != "persistent-2":
        yield Finding(
            (*path, "metadata_iops"), f"needs deployment: persistent-2, got {storage.deployment}", "remove it"
        )


@validator("fsx-backup-days", f"{FSX_API}: AutomaticBackupRetentionDays, 0 to 90")
def backup_days(storage: FsxLustre, path: Path, config: ClusterConfig) -> Findings:
    """Backups are kept for at most 90 days."""
    if storage.backup_days > BACKUP_DAYS:
        yield Finding((*path, "backup_days"), f"must be at most {BACKUP_DAYS}, got {storage.backup_days}")


@validator("fsx-scratch-has-no-backups", f"{GUIDE}/using-backups-fsx.html: persistent deployment types")
def scratch_has_no_backups(storage: FsxLustre, path: Path, config: ClusterConfig) -> Findings:
    """A file system with backups is persistent."""
    if storage.backup_days and storage.deployment.startswith("scratch"):
        yield Finding(
            (*path, "backup_days"),
            f"{storage.deployment} has no backups",
            "use persistent-2, or remove backup_days",
        )


@validator(
    "fsx-linked-has-no-backups",
    f"{GUIDE}/fsx-data-repositories.html: not supported on file systems that are linked to S3",
)
def linked_has_no_backups(storage: FsxLustre, path: Path, config: ClusterConfig) -> Findings:
    """A file system with data repositories has no backups."""
    if storage.backup_days and storage.data_repositories:
        yield Finding(
            (*path, "backup_days"),
            "a file system with data_repositories has no backups",
            "remove backup_days: exported files are already in S3",
        )


@validator("fsx-region", "AWS::FSx::FileSystem: CloudFormation's specification")
def fsx_region(storage: FsxLustre, path: Path, config: ClusterConfig) -> Findings:
    """FSx is in the cluster's region."""
    if config.region in WITHOUT_FSX:
        yield Finding((*path, "type"), f"CloudFormation has no FSx in {config.region}", "use efs, or another region")


@validator(
    "fsx-china-persistent-1",
    "https://docs.amazonaws.cn/en_us/fsx/latest/LustreGuide/using-fsx-lustre.html: deployment types",
)
def china_persistent_1(storage: FsxLustre, path: Path, config: ClusterConfig) -> Findings:
    """In China's regions deployment is persistent-1: there are no others."""
    if partition_of(config.region) == "aws-cn" and storage.deployment != "persistent-1":
        yield Finding(
            (*path, "deployment"),
            f"{config.region} has only persistent-1, got {storage.deployment}",
            "use persistent-1 with 50, 100 or 200 MB/s per TiB",
        )


@validator(
    "home-not-with-jobs",
    "https://docs.aws.amazon.com/fsx/latest/APIReference/API_DeleteFileSystem.html: any data is also deleted",
    section="Mounts",
)
def home_not_with_jobs(storage: FsxLustre, path: Path, config: ClusterConfig) -> Findings:
    """/home is always there, so its file system does not have lifetime: jobs."""
    if storage.mount == "/home" and storage.with_jobs:
        yield Finding((*path, "lifetime"), "/home is needed without jobs too, got jobs", "write lifetime: cluster")
