"""Rules about a parallel file system in the memory of one job's nodes: its source and its export."""

from __future__ import annotations

from gpucluster.addresses import in_s3
from gpucluster.config.document import Finding, Path
from gpucluster.config.models import Access, ClusterConfig
from gpucluster.config.storage import BeegfsRam
from gpucluster.config.storage.beegfs.checks import BEEGFS
from gpucluster.config.validators import Findings, Validators

validator = Validators(BEEGFS)


@validator(
    "beegfs-export-of-job",
    "man slurm.conf.5: Epilog: runs on every node of a job when it ends; a cluster has no such end",
)
def export_of_job(storage: BeegfsRam, path: Path, config: ClusterConfig) -> Findings:
    """export needs scope: job: it happens when the job ends."""
    if storage.export and storage.scope == "cluster":
        yield Finding(
            (*path, "export"),
            "a file system of the cluster has no end at which to export it",
            "remove it and let jobs copy their results, or write scope: job",
        )


@validator(
    "beegfs-jobs-may-copy",
    "https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_evaluation-logic.html: implicit denial",
)
def jobs_may_copy(storage: BeegfsRam, path: Path, config: ClusterConfig) -> Findings:
    """With scope: job, s3_access grants the source, and read-write to the export: the job copies both, in its role."""
    wanted: tuple[tuple[str, str | None, Access], ...] = (
        ("source", storage.source, "read"),
        ("export", storage.export, "read-write"),
    )
    for key, uri, access in wanted:
        if storage.scope == "job" and uri and in_s3(uri) and not config.jobs_may(access, uri):
            verb = "read" if access == "read" else "write to"
            yield Finding(
                (*path, key), f"jobs may not {verb} {uri}", f"add to s3_access: {{uri: {uri}, access: {access}}}"
            )
