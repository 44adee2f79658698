"""Whose job it is. A job's folder is in the home directory of the user who submitted it, and every verb looks in the
caller's."""

from __future__ import annotations

from collections.abc import Collection

from gpucluster import account
from gpucluster.errors import UsageError
from gpucluster.head import arrays, slurm
from gpucluster.head.remote import Remote


def owners(remote: Remote, job_ids: Collection[str]) -> dict[str, str]:
    """Job id -> user, of those that Slurm still knows. It refuses to answer if it knows none."""
    return slurm.parse_owners(remote.run(slurm.owners_argv(job_ids)).stdout) if job_ids else {}


def another(remote: Remote, job_id: str) -> str:
    """The job's user if it is not the caller; empty if it is, or if neither Slurm nor its accounting knows the job."""
    number = arrays.array_of(job_id)[0]
    user = owners(remote, [number]).get(number) or remote.run(slurm.past_owner_argv(number)).stdout.partition("\n")[0]
    return "" if user == remote.run(["id", "-un"]).stdout.strip() else user


def words(job_id: str, user: str) -> str:
    return f"job {job_id} is {user}'s, and its folder is in {user}'s home directory"


def refuse_anothers(remote: Remote, job_id: str) -> None:
    """Raises UsageError."""
    if user := another(remote, job_id):
        raise UsageError(
            f"{words(job_id, user)}: this verb reads only the caller's",
            f"put {account.VARIABLE}={user} in front of the command to act as {user}, if you may use that account",
        )
