"""The effect of each key's change on an existing file system on FSx for Lustre."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from gpucluster.config.outcome import Difference, Outcome, Rule, added_or_removed, by_rule, in_place, nothing, refused
from gpucluster.config.storage.mount import ON_DELETE, Step

if TYPE_CHECKING:
    from gpucluster.config.storage.fsx import FsxLustre

NEW_MOUNT = "add a second entry under another mount, and copy the files"
_EMPTY = refused("FSx would create a new, empty file system", NEW_MOUNT)
_NEXT = in_place("applies to the next file system; the current one stays as it is")
_UNLINKED = in_place("the next file system is not linked; the current one is kept until its folder is exported")
_RELINK = "remove the entry and run `up`; then add it with the new address, and run `up`"


def _deployed(difference: Difference, step: Step) -> FsxLustre | None:
    """None if the mount had another kind of storage. Its class cannot be imported here: it imports this module."""
    named = (each for each in step.old.mounts if each.mount == difference.entries[0])
    return next((cast("FsxLustre", each) for each in named if each.type == "fsx-lustre"), None)


def _with_jobs(difference: Difference, step: Step) -> bool:
    storage = _deployed(difference, step)
    return storage is not None and storage.with_jobs


def _counts_for_next(otherwise: Outcome | Rule[Step], next_: Outcome | Rule[Step] = _NEXT) -> Rule[Step]:
    """With `lifetime: jobs`, the change applies when the head node creates the next file system."""
    return lambda difference, step: by_rule(difference, step, next_ if _with_jobs(difference, step) else otherwise)


def _capacity(difference: Difference, step: Step) -> Outcome:
    storage = _deployed(difference, step)
    if storage and storage.deployment == "scratch-1":
        return refused("FSx cannot change the capacity of a scratch-1 file system", NEW_MOUNT)
    if difference.new < difference.old:
        return refused("FSx cannot reduce the capacity of a file system", NEW_MOUNT)
    return in_place("FSx adds disks and moves data to them for hours; the next change is possible after six hours")


def _lifetime(difference: Difference, step: Step) -> Outcome:
    storage, mount = _deployed(difference, step), difference.entries[0]
    if difference.new == "jobs" or storage is None:
        return refused(f"all data in {mount} would be deleted: it would exist only while jobs use it", NEW_MOUNT)
    return storage.orphaned(step.old)


def _idle(difference: Difference, step: Step) -> Outcome:
    if _with_jobs(difference, step):
        return in_place("applies to the current file system too")
    return nothing("with lifetime: cluster an idle file system is kept")


def _metadata_iops(difference: Difference, step: Step) -> Outcome:
    if difference.old is not None and difference.new is not None and difference.new < difference.old:
        return refused("FSx cannot reduce the metadata IOPS of a file system", NEW_MOUNT)
    return in_place("clients wait for some minutes while FSx replaces the metadata servers")


UPDATES: Mapping[str, Outcome | Rule[Step]] = {
    "deployment": _counts_for_next(_EMPTY),
    "capacity_gib": _counts_for_next(_capacity),
    "throughput_mbps_per_tib": _counts_for_next(in_place("clients wait some minutes while FSx replaces servers")),
    "compression": _counts_for_next(in_place("applies to files written from now on")),
    # also with lifetime: jobs, because the security group of the current file system would change
    "efa": _counts_for_next(_EMPTY, refused("nodes and ports must be set up for EFA beforehand", NEW_MOUNT)),
    "metadata_iops": _counts_for_next(_metadata_iops),
    "backup_days": in_place("applies from the next daily backup"),
    "on_delete": ON_DELETE,
    "lifetime": _lifetime,
    "idle_minutes": _idle,
    "data_repositories[]": added_or_removed(
        _counts_for_next(in_place("linked to S3 now")),
        _counts_for_next(in_place("no longer linked to S3; the files already imported stay"), _UNLINKED),
    ),
    # CloudFormation creates the new link before it deletes the old one, and FSx allows one for a directory
    "data_repositories[].s3": _counts_for_next(refused("FSx links a directory to one S3 prefix only", _RELINK)),
    "data_repositories[].import": _counts_for_next(in_place("applies to changes in S3 from now on")),
    "data_repositories[].export": _counts_for_next(in_place("applies to files that change from now on")),
}
