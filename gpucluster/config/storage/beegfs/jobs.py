"""Rules about a parallel file system in the memory of one job's nodes: what goes into it, what comes out."""

from __future__ import annotations

from gpucluster.addresses import S3Uri, in_s3
from gpucluster.config.document import Finding, Path
from gpucluster.config.models import ClusterConfig
from gpucluster.config.storage import BeegfsRam
from gpucluster.config.storage.beegfs.checks import BEEGFS, on_a_mount
from gpucluster.config.validators import Findings, Validators

validator = Validators(BEEGFS)


@validator(
    "beegfs-export-of-job",
    "man slurm.conf.5: Epilog: runs on every node of a job when it ends; a cluster has no such end",
)
def export_of_job(storage: BeegfsRam, path: Path, config: ClusterConfig) -> Findings:
    """export goes with scope: job, whose end is when it happens."""
    if storage.export and storage.scope == "cluster":
        yield Finding(
            (*path, "export"),
            "a file system of the cluster has no end at which it would be written back",
            "leave it out and let jobs copy what they make, or take scope: job",
        )


@validator("beegfs-export-is-there", "man mount.8: a path leads to where its file system is mounted")
def export_is_there(storage: BeegfsRam, path: Path, config: ClusterConfig) -> Findings:
    """An export that is a folder lies on an FSx or EFS of the cluster: it outlives the job's nodes."""
    yield from on_a_mount(storage.export, (*path, "export"), config)


@validator(
    "beegfs-jobs-may-read",
    "https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_evaluation-logic.html: implicit denial",
)
def jobs_may_read(storage: BeegfsRam, path: Path, config: ClusterConfig) -> Findings:
    """With scope: job, s3_access grants the source: the job itself reads it, under the jobs' role."""
    if storage.scope == "job" and storage.source and in_s3(storage.source):
        yield from _granted(config, storage.source, (*path, "source"), ("read", "read-write"), "read")


@validator(
    "beegfs-jobs-may-write",
    "https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_evaluation-logic.html: implicit denial",
)
def jobs_may_write(storage: BeegfsRam, path: Path, config: ClusterConfig) -> Findings:
    """s3_access grants read-write to the export: the job itself writes it, under the jobs' role."""
    if storage.scope == "job" and storage.export and in_s3(storage.export):
        yield from _granted(config, storage.export, (*path, "export"), ("read-write",), "write to")


def _granted(config: ClusterConfig, uri: str, path: Path, enough: tuple[str, ...], verb: str) -> Findings:
    wanted = S3Uri.of(uri)
    if not any(S3Uri.of(access.uri).holds(wanted) and access.access in enough for access in config.s3_access):
        yield Finding(
            path,
            f"jobs may not {verb} {uri}",
            f"add to s3_access: {{uri: {uri}, access: {enough[-1] if verb != 'read' else 'read'}}}",
        )
