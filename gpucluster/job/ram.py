"""The file system in the memory of a job's own nodes: which jobs get one."""

from __future__ import annotations

from gpucluster.config.models import ClusterConfig
from gpucluster.config.storage import BeegfsRam
from gpucluster.job.spec import JobSpec


def offered(spec: JobSpec, config: ClusterConfig) -> BeegfsRam | None:
    """What the partition has for jobs."""
    found = config.ram
    return found if found and (found.scope, found.partition) == ("job", spec.partition) else None


def refusal(spec: JobSpec) -> str | None:
    """Why this job gets none all the same."""
    if not spec.exclusive:
        return "the job shares its nodes, and their memory"
    if spec.min_nodes:
        return "an elastic job goes on without nodes that it loses, and a file system does not"
    return None


def missing(spec: JobSpec, config: ClusterConfig) -> str:
    """A line for the log of a job that gets none where others do."""
    found, why = offered(spec, config), refusal(spec)
    return f"[ram] there is no {found.mount}: {why}" if found and why else ""


def of(spec: JobSpec, config: ClusterConfig) -> BeegfsRam | None:
    return None if refusal(spec) else offered(spec, config)
