"""Rules about FSx for Lustre with `lifetime: jobs`."""

from __future__ import annotations

import json

from gpucluster.addresses import within
from gpucluster.config.document import Finding, Path
from gpucluster.config.models import ClusterConfig
from gpucluster.config.regions import partition_of
from gpucluster.config.storage import BeegfsRam, FsxLustre
from gpucluster.config.storage.fsx import requests
from gpucluster.config.storage.fsx.sizes import FSX
from gpucluster.config.validators import Findings, Validators

validator = Validators(FSX)

FSX_DELETE = "https://docs.aws.amazon.com/fsx/latest/APIReference/API_DeleteFileSystem.html"
FSX_BILLED = "https://aws.amazon.com/fsx/lustre/pricing/: usage is prorated by the second"
SSM_VALUE = "https://docs.aws.amazon.com/systems-manager/latest/APIReference/API_PutParameter.html: Value, 4 KB"
PARAMETER_BYTES = 4096
MOST_IDLE_MINUTES = 366 * 24 * 60


@validator("fsx-jobs-has-links", f"{FSX_DELETE}: any data is also deleted")
def jobs_has_links(storage: FsxLustre, path: Path, config: ClusterConfig) -> Findings:
    """A file system with lifetime: jobs has data repositories: the jobs' files must be exported in the end."""
    if storage.lifetime == "jobs" and not storage.data_repositories:
        yield Finding(
            (*path, "data_repositories"),
            "with lifetime: jobs, all files that jobs write would be lost with the file system",
            "link a folder: [{path: /results, s3: s3://bucket/results, export: [new, changed]}]; or lifetime: cluster",
        )


@validator("fsx-jobs-is-not-kept", f"{FSX_DELETE}: once deleted, it is gone")
def jobs_is_not_kept(storage: FsxLustre, path: Path, config: ClusterConfig) -> Findings:
    """A file system with lifetime: jobs is not on_delete: retain: it is deleted when no job uses it."""
    if storage.lifetime == "jobs" and storage.on_delete == "retain":
        yield Finding(
            (*path, "on_delete"),
            "with lifetime: jobs, the file system is deleted when no job uses it",
            "remove on_delete: it is deleted once all its files are in S3; or write lifetime: cluster",
        )


@validator("fsx-idle-in-range", FSX_BILLED)
def idle_in_range(storage: FsxLustre, path: Path, config: ClusterConfig) -> Findings:
    """A file system's idle_minutes is from one second to one year."""
    if not 1 <= storage.idle_minutes * 60 <= MOST_IDLE_MINUTES * 60:
        yield Finding(
            (*path, "idle_minutes"),
            f"must be 1/60 to {MOST_IDLE_MINUTES}, got {storage.idle_minutes:g}",
            "to keep it always, write lifetime: cluster",
        )


@validator("fsx-jobs-fits-parameter", SSM_VALUE)
def jobs_fits_parameter(storage: FsxLustre, path: Path, config: ClusterConfig) -> Findings:
    """The request for a file system with lifetime: jobs fits into the SSM parameter that the head node reads."""
    if storage.lifetime != "jobs":
        return
    length = _length(storage, config)
    if length > PARAMETER_BYTES:
        yield Finding(
            (*path, "data_repositories"),
            f"an SSM parameter holds {PARAMETER_BYTES} characters, but the request to FSx has {length}",
            "shorten paths and addresses, link a common prefix, or add a second file system",
        )


def _length(storage: FsxLustre, config: ClusterConfig) -> int:
    """Its length, with the longest possible values for those that only a deployment knows."""
    arn = f"arn:{partition_of(config.region)}:logs:{config.region}:{'0' * 12}:log-group"
    resources = requests.Resources(
        subnet_id="subnet-" + "0" * 17,
        group_id="sg-" + "0" * 17,
        log_group_arn=f"{arn}:/aws/fsx/{config.name}{storage.mount}",
        key_arn=config.security.kms_key_arn,
    )
    asked = requests.parameter(storage, config.name, resources)
    value = {"type": storage.type, "mount": storage.mount, **asked}
    return len(json.dumps(value, separators=(",", ":")))


@validator("beegfs-source-stays", "man mount.8: a path leads to where its file system is mounted")
def beegfs_source_stays(storage: BeegfsRam, path: Path, config: ClusterConfig) -> Findings:
    """The source of a BeeGFS with scope: cluster lies on no Lustre with lifetime: jobs: nodes read it at boot."""
    if storage.scope != "cluster" or not storage.source:
        return
    for each in config.lustre_with_jobs:
        if within(storage.source, each.mount):
            yield Finding(
                (*path, "source"),
                f"{storage.source} exists only while jobs use {each.mount}",
                "use the s3:// address that it is linked to, or write scope: job",
            )
