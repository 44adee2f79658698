"""Which jobs get a file system in the memory of their nodes."""

from __future__ import annotations

from gpucluster import account
from gpucluster.config.models import ClusterConfig
from gpucluster.config.storage import BeegfsRam
from gpucluster.job.spec import JobSpec


def offered(spec: JobSpec, config: ClusterConfig) -> BeegfsRam | None:
    """The partition's RAM file system for jobs, or None."""
    found = config.ram
    return found if found and (found.scope, found.partition) == ("job", spec.partition) else None


def refusal(spec: JobSpec) -> str | None:
    """Why this job gets none, even if its partition has one."""
    if account.user() != account.ADMINISTRATOR:
        return "only jobs of the administrator can have one"
    if not spec.exclusive:
        return "the job shares its nodes and their memory"
    if spec.min_nodes:
        return "an elastic job continues after it loses a node, but a file system does not"
    return None
