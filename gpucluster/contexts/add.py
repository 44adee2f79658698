"""Looking at a cluster for the first time."""

from __future__ import annotations

from contextlib import closing
from pathlib import PurePosixPath

from gpucluster.contexts import probe
from gpucluster.contexts.store import FOLDER, Context
from gpucluster.errors import UsageError
from gpucluster.head.login import Address, LoginRemote
from gpucluster.layout import Site


def look(name: str, address: str, folder: str | None) -> Context:
    """Makes the folder there. Raises UsageError where jobs of ours cannot run, or RemoteError."""
    if folder is not None and not PurePosixPath(folder).is_absolute():
        raise UsageError(f"--folder {folder}: must be an absolute path on the cluster", "such as /scratch/me/jobs")
    with closing(LoginRemote(name, Address.parse(address), Site("/", False))) as remote:
        facts = probe.ask(remote)
        place = folder or f"{facts.home}/{FOLDER}"
        remote.run(["mkdir", "-p", "--", place]).check(f"cannot make {place} there")
    return Context(name, address, place, facts)
