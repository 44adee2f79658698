"""What a change of each key does to a file system on FSx for Lustre that is there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gpucluster.config.outcome import Outcome, Rule, added_or_removed, by_rule, in_place, nothing, refused
from gpucluster.config.storage.mount import ON_DELETE

if TYPE_CHECKING:
    from gpucluster.config.storage.fsx import FsxLustre
    from gpucluster.updates.difference import Difference
    from gpucluster.updates.rules import Step

NEW_MOUNT = "add a second entry under another mount, and copy"
_EMPTY = refused("FSx would make a new, empty file system", NEW_MOUNT)
_NEXT = in_place("counts for the next file system; the one that jobs may be using stays as it is")
_UNLINKED = in_place("not linked in the next file system; what is in its folder now keeps the one that is there")
_RELINK = "take the entry away and `up`; then add it with the new place, and `up`"


def _deployed(difference: Difference, step: Step) -> FsxLustre | None:
    """None where the mount was of another kind."""
    return next((each for each in step.old.config.lustre if each.mount == difference.entries[0]), None)


def _with_jobs(difference: Difference, step: Step) -> bool:
    storage = _deployed(difference, step)
    return storage is not None and storage.with_jobs


def _counts_for_next(otherwise: Outcome | Rule, next_: Outcome | Rule = _NEXT) -> Rule:
    """Of a file system that lives with jobs the head node makes the next one so."""
    return lambda difference, step: by_rule(difference, step, next_ if _with_jobs(difference, step) else otherwise)


def _capacity(difference: Difference, step: Step) -> Outcome:
    storage = _deployed(difference, step)
    if storage and storage.deployment == "scratch-1":
        return refused("FSx cannot change the capacity of a scratch-1 file system", NEW_MOUNT)
    if difference.new < difference.old:
        return refused("FSx cannot take capacity from a file system", NEW_MOUNT)
    return in_place("FSx adds disks and spreads the data, which takes hours; again after six hours at the earliest")


def _lifetime(difference: Difference, step: Step) -> Outcome:
    storage, mount = _deployed(difference, step), difference.entries[0]
    if difference.new == "jobs" or storage is None:
        return refused(f"all data in {mount} would be deleted: it would be there only while jobs use it", NEW_MOUNT)
    return storage.orphaned(step.old)


def _idle(difference: Difference, step: Step) -> Outcome:
    if _with_jobs(difference, step):
        return in_place("counts for the file system that is there as well")
    return nothing("it stays, however idle: lifetime is cluster")


def _metadata_iops(difference: Difference, step: Step) -> Outcome:
    if difference.old is not None and difference.new is not None and difference.new < difference.old:
        return refused("FSx can raise the metadata IOPS of a file system, and not lower them", NEW_MOUNT)
    return in_place("clients wait for up to a few minutes while the metadata servers change")


UPDATES: Mapping[str, Outcome | Rule] = {
    "deployment": _counts_for_next(_EMPTY),
    "capacity_gib": _counts_for_next(_capacity),
    "throughput_mbps_per_tib": _counts_for_next(in_place("FSx changes its servers; clients wait for some minutes")),
    "compression": _counts_for_next(in_place("counts for what is written from now on")),
    # Of one that lives with jobs too: its security group would change under the one that is there.
    "efa": _counts_for_next(_EMPTY, refused("nodes and ports are set up for it beforehand", NEW_MOUNT)),
    "metadata_iops": _counts_for_next(_metadata_iops),
    "backup_days": in_place("counts for the next daily backup"),
    "on_delete": ON_DELETE,
    "lifetime": _lifetime,
    "idle_minutes": _idle,
    "data_repositories[]": added_or_removed(
        _counts_for_next(in_place("linked with S3 now")),
        _counts_for_next(in_place("no longer kept in step with S3; files that were read in stay"), _UNLINKED),
    ),
    # CloudFormation makes the new link before it deletes the old one, and FSx takes one for a directory.
    "data_repositories[].s3": _counts_for_next(refused("FSx links a directory with one place alone", _RELINK)),
    "data_repositories[].import": _counts_for_next(in_place("counts for what changes in S3 from now on")),
    "data_repositories[].export": _counts_for_next(in_place("counts for files that change from now on")),
}
