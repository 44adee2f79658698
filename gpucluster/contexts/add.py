"""`gpucluster context add`: inspects a cluster, and makes its context."""

from __future__ import annotations

from contextlib import closing
from pathlib import PurePosixPath

from gpucluster.contexts import probe
from gpucluster.contexts.store import FOLDER, Context
from gpucluster.errors import UsageError
from gpucluster.head.login import Address, LoginRemote
from gpucluster.layout import Site


def inspect(name: str, address: str, folder: str | None) -> Context:
    """Also makes the jobs' folder there. Raises UsageError if our jobs cannot run there, or RemoteError."""
    if folder is not None and not PurePosixPath(folder).is_absolute():
        raise UsageError(f"--folder {folder}: must be an absolute path on the cluster", "such as /scratch/me/jobs")
    with closing(LoginRemote(name, Address.parse(address), Site("/", False))) as remote:
        facts = probe.ask(remote)
        job_folder = folder or f"{facts.home}/{FOLDER}"
        remote.run(["mkdir", "-p", "--", job_folder]).check(f"cannot make {job_folder} on the cluster")
    return Context(name, address, job_folder, facts)
