"""`gpucluster context add`: inspects a cluster, and makes its context."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import PurePosixPath

from gpucluster.contexts import probe
from gpucluster.contexts.store import FOLDER, Context
from gpucluster.errors import UsageError
from gpucluster.head.login import Address, LoginRemote
from gpucluster.layout import Site


def inspect(name: str, address: str, folder: str | None) -> Context:
    """Also makes the jobs' folder there. Raises UsageError if our jobs cannot run there, or RemoteError."""
    if folder is not None:
        checked(folder, "--folder")
    with closing(LoginRemote(name, Address.parse(address), Site("/", False))) as remote:
        facts = probe.ask(remote)
        job_folder = folder or checked(f"{facts.home}/{FOLDER}", "the jobs' folder")
        remote.run(["mkdir", "-p", "--", job_folder]).check(f"cannot make {job_folder} on the cluster")
    return Context(name, address, job_folder, facts)


def checked(folder: str, what: str) -> str:
    """The folder's name becomes part of #SBATCH lines, file name patterns, scripts and lists of mounts, each with other
    special characters. Raises UsageError."""
    if not PurePosixPath(folder).is_absolute():
        raise UsageError(f"{what} {folder}: must be an absolute path on the cluster", _SUCH)
    if odd := re.findall(r"[^A-Za-z0-9._+@/-]", folder):
        named = ", ".join(map(repr, dict.fromkeys(odd)))
        allowed = "allowed are letters from A to Z, digits and any of . _ + @ / -"
        raise UsageError(f"{what} {folder}: has {named}, and {allowed}", f"name another one with --folder, {_SUCH}")
    return folder


_SUCH = "such as /scratch/me/jobs"
