"""The file systems that live with jobs, when the cluster is deleted: the stack knows nothing of them, the head does."""

from __future__ import annotations

from collections.abc import Collection

from gpucluster.config import ClusterConfig
from gpucluster.config.lustre_requests import tagged_name
from gpucluster.errors import UsageError
from gpucluster.remote import Remote

PROGRAM = ("sudo", "-n", "/opt/gpucluster/bin/node-program", "job_lustre", "end")
TIMEOUT_S = 3600.0
"""FSx takes minutes to delete one, and first to make one that has just been asked for."""


def end(remote: Remote, *, discard: bool) -> list[str]:
    """A line for each that is deleted now. The head makes no more of them. Raises RemoteError, with its reason."""
    done = remote.run([*PROGRAM, *(["--discard"] if discard else [])], timeout_s=TIMEOUT_S)
    return done.check("not all file systems of jobs are deleted").stdout.splitlines()


def names(config: ClusterConfig) -> set[str]:
    """As FSx shows them in the tag Name."""
    return {tagged_name(each.mount, config.name) for each in config.lustre_with_jobs}


def refusal(there: Collection[str], reason: Exception) -> UsageError:
    """`there`: names of those that would be left behind, with interfaces that keep the network from being deleted."""
    return UsageError(
        f"FSx has {', '.join(sorted(there))}, which nothing would delete any more: {reason}; the cluster stays",
        "once the head node answers, `gpucluster down` again; or delete what has that name in the FSx console",
    )
