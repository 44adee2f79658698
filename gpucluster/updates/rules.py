"""Policies that depend on the values: a larger volume is one thing, a smaller one another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from gpucluster import render
from gpucluster.config import PARAMETER_SERVERS, BeegfsRam
from gpucluster.config.lustre_requests import tagged_name
from gpucluster.layout import Group, Layout
from gpucluster.updates.difference import Difference
from gpucluster.updates.outcome import (
    Drain,
    Effect,
    Outcome,
    drain,
    head_replaced,
    in_place,
    new_nodes,
    nothing,
    refused,
)

NEW_CLUSTER = "make a new cluster under another name, and copy what you need"
REPLACED_AS_FREE = "nodes that run are replaced as their jobs end"


@dataclass(frozen=True)
class Step:
    """From one cluster to the next."""

    old: Layout
    new: Layout


Rule = Callable[[Difference, Step], Outcome]


def by_rule(difference: Difference, step: Step, policy: Outcome | Rule) -> Outcome:
    return policy if isinstance(policy, Outcome) else policy(difference, step)


def growth(grows: Outcome, shrinks: Outcome) -> Rule:
    """For keys that hold a number."""
    return lambda difference, step: grows if difference.new > difference.old else shrinks


def added_or_removed(added: Outcome | Rule, removed: Outcome | Rule) -> Rule:
    """For entries of lists and whole sections."""
    return lambda difference, step: by_rule(difference, step, added if difference.old is None else removed)


def partition_of(difference: Difference) -> str:
    """Keys of parameter_servers are those of the partition `ps`."""
    return difference.entries[0] if difference.entries else PARAMETER_SERVERS


def every_partition(layout: Layout) -> tuple[Drain, ...]:
    return tuple(map(Drain, layout.names))


def internet(difference: Difference, step: Step) -> Outcome:
    if difference.new == "nat":
        return in_place("nodes reach out through a NAT gateway")
    what = "the NAT gateway goes, and endpoints come: a job that talks to the internet would fail"
    return Outcome(Effect.DRAIN, what, drains=every_partition(step.old))


def removed_partition(difference: Difference, step: Step) -> Outcome:
    name, what = partition_of(difference), "its nodes go; jobs that wait for it are refused by Slurm"
    drains = _in_group_of(name, step)
    if len(drains) > 1:
        what += "; its placement group goes, which the parameter servers share"
    return drain(what, *drains)


def _in_group_of(name: str, step: Step) -> tuple[Drain, ...]:
    """The partition's own nodes, and those of another that shares its placement group."""
    sharing = (each.name for each in step.old.partitions if each.group == Group(name, ours=True))
    return tuple(map(Drain, dict.fromkeys([name, *sharing])))


def moved_servers(step: Step) -> Iterator[Difference]:
    """What the file does not say itself: that `shared` stands for another group than before."""
    if _shares(step.old) and _shares(step.new):
        key = "parameter_servers.placement_group"
        before, after = (f"shared with {_group_of_servers(layout)}" for layout in (step.old, step.new))
        if before != after:
            yield Difference(key, key, (), before, after)


def _shares(layout: Layout) -> bool:
    servers = layout.config.parameter_servers
    return servers is not None and servers.placement_group == "shared"


def _group_of_servers(layout: Layout) -> str:
    group = layout.servers.group if layout.servers else None
    return group.name if group else "nobody"


def most_nodes(difference: Difference, step: Step) -> Outcome:
    name = partition_of(difference)
    if difference.new > difference.old:
        return in_place(f"{_nodes(name, difference.old, difference.new)} can be used when `up` returns")
    return drain(f"{_nodes(name, difference.new, difference.old)} must be gone", Drain(name, above=difference.new))


def _nodes(partition: str, above: int, last: int) -> str:
    first = f"{partition}-{above + 1}"
    return first if last == above + 1 else f"{first} to {partition}-{last}"


def least_nodes(difference: Difference, step: Step) -> Outcome:
    if difference.new > difference.old:
        return in_place(f"{_nodes(partition_of(difference), difference.old, difference.new)} are launched and kept on")
    return in_place(f"{_nodes(partition_of(difference), difference.new, difference.old)} end when they are idle")


def instance_types(difference: Difference, step: Step) -> Outcome:
    """Slurm is told the least that any type has: a node that has less than what its line says now is refused."""
    name = partition_of(difference)
    before, after = told_to_slurm(step.old, name), told_to_slurm(step.new, name)
    if before != after:
        return drain(f"Slurm counts on other nodes: {after} instead of {before}", Drain(name))
    return new_nodes("nodes are launched from these from now on; one whose type is gone is replaced as its jobs end")


def told_to_slurm(layout: Layout, partition: str) -> str:
    """What slurm.conf says of a node of the partition."""
    lines = render.slurm(layout)["slurm/slurm.conf"].splitlines()
    told = next(line.partition(" ")[2] for line in lines if line.startswith(f"NodeName={partition}-"))
    return told.removesuffix(" State=CLOUD")


def image_of_nodes(difference: Difference, step: Step) -> Outcome:
    name = partition_of(difference)
    before, after = (layout.partition(name).image for layout in (step.old, step.new))
    if before == after:
        return nothing("the same image, said in another place")
    return new_nodes(f"new nodes boot from it; {REPLACED_AS_FREE}")


def image_of_head(difference: Difference, step: Step) -> Outcome:
    before, after = (layout.head_image for layout in (step.old, step.new))
    if before == after:
        return nothing("the same image, said in another place")
    return head_replaced("a new head node takes over the data volume: /home and Slurm's state stay")


_UNPROTECT = "set head_node.termination_protection: false and `up`; then change this, and protect it again"


def image_of_all(difference: Difference, step: Step) -> Outcome:
    """Head and partitions follow software.image where they have none of their own."""
    head = step.old.config.head_node.image is None and step.new.config.head_node.image is None
    if head:
        return head_replaced("a new head node takes over the data volume; new nodes boot from the new image too")
    return new_nodes(f"new nodes boot from it; {REPLACED_AS_FREE}")


def placement_group(difference: Difference, step: Step) -> Outcome:
    """A group that the stack made cannot be deleted while an instance is in it."""
    if difference.old != "cluster":
        return new_nodes(f"new nodes are placed so; {REPLACED_AS_FREE}")
    return drain("its placement group is deleted, and must be empty", *_in_group_of(partition_of(difference), step))


def removed_storage(difference: Difference, step: Step) -> Outcome:
    """What AWS does with the file system is what the deployed file says, not the new one."""
    gone = difference.old
    if gone["type"] == "beegfs-ram":
        return drain(f"what {gone['mount']} holds in memory goes with the nodes", Drain(gone["partition"]))
    if gone.get("lifetime") == "jobs":
        return _orphaned(gone["mount"], step)
    if gone.get("on_delete") == "retain":
        what = "nodes let go of it; the file system stays in your account, and costs, until you delete it"
        return Outcome(Effect.DRAIN, what, drains=every_partition(step.old))
    return _loses(gone["mount"])


def _loses(mount: str) -> Outcome:
    return refused(
        f"all data in {mount} would be deleted",
        f"set on_delete: retain for {mount} and `up`; then take the entry away: the file system stays in your account",
    )


def _orphaned(mount: str, step: Step) -> Outcome:
    """Of a file system that lives with jobs: the head node deletes it only as long as it knows of it."""
    return refused(
        f"{mount} has a file system now, which nothing would delete any more",
        f"cancel the jobs that use {mount}, or wait for them; when it is idle and in S3 it is deleted, then `up`",
        while_there=tagged_name(mount, step.old.config.name),
    )


def added_storage(difference: Difference, step: Step) -> Outcome:
    added = difference.new
    if added.get("lifetime") == "jobs":
        return in_place("made when the first job needs it")
    if added["type"] != "beegfs-ram":
        return in_place("made now; nodes that run mount it before their next job")
    if added["scope"] == "job":
        return in_place("jobs that start from now on have it")
    return drain("all nodes of the partition join it when they boot", Drain(added["partition"]))


def other_storage_type(difference: Difference, step: Step) -> Outcome:
    mount = difference.entries[0]
    if mount == "/home":
        return refused("people's files in /home would not move along", NEW_CLUSTER)
    (gone,) = (storage for storage in step.old.mounts if storage.mount == mount)
    if isinstance(gone, BeegfsRam):
        return drain(f"what {mount} holds in memory goes with the nodes", *every_partition(step.old))
    if _with_jobs(mount, step):
        return _orphaned(mount, step)
    if getattr(gone, "on_delete", None) != "retain":
        return _loses(mount)
    what = f"{mount} is empty, and another; the old file system stays in your account"
    return Outcome(Effect.DRAIN, what, drains=every_partition(step.old))


def beegfs(difference: Difference, step: Step) -> Outcome:
    """Its servers are set up when a node boots: all of them, together."""
    mount = difference.entries[0]
    entries = [each for layout in (step.old, step.new) for each in layout.mounts if each.mount == mount]
    partitions = dict.fromkeys(each.partition for each in entries if isinstance(each, BeegfsRam))
    return drain(f"{mount} is made anew, empty", *(Drain(name) for name in partitions if name in step.old.names))


def capacity(difference: Difference, step: Step) -> Outcome:
    mount = difference.entries[0]
    (storage,) = (each for each in step.old.mounts if each.mount == mount)
    if getattr(storage, "deployment", None) == "scratch-1":
        return refused("FSx cannot change the capacity of a scratch-1 file system", NEW_MOUNT)
    if difference.new < difference.old:
        return refused("FSx cannot take capacity from a file system", NEW_MOUNT)
    return in_place("FSx adds disks and spreads the data, which takes hours; again after six hours at the earliest")


NEW_MOUNT = "add a second entry under another mount, and copy"
_NEXT = in_place("counts for the next file system; the one that jobs may be using stays as it is")


def _with_jobs(mount: str, step: Step) -> bool:
    return any(each.mount == mount for each in step.old.config.lustre_with_jobs)


def counts_for_next(otherwise: Outcome | Rule, next_: Outcome | Rule = _NEXT) -> Rule:
    """Of a file system that lives with jobs the head node makes the next one so."""
    return lambda difference, step: by_rule(
        difference, step, next_ if _with_jobs(difference.entries[0], step) else otherwise
    )


def lifetime(difference: Difference, step: Step) -> Outcome:
    mount = difference.entries[0]
    if difference.new == "jobs":
        return refused(f"all data in {mount} would be deleted: it would be there only while jobs use it", NEW_MOUNT)
    return _orphaned(mount, step)


def file_system_idle(difference: Difference, step: Step) -> Outcome:
    if _with_jobs(difference.entries[0], step):
        return in_place("counts for the file system that is there as well")
    return nothing("it stays, however idle: lifetime is cluster")


def metadata_iops(difference: Difference, step: Step) -> Outcome:
    if difference.old is not None and difference.new is not None and difference.new < difference.old:
        return refused("FSx can raise the metadata IOPS of a file system, and not lower them", NEW_MOUNT)
    return in_place("clients wait for up to a few minutes while the metadata servers change")


def accounting(difference: Difference, step: Step) -> Outcome:
    """The database on RDS is kept or deleted, and protected, as the head's volume is."""
    head = step.old.config.head_node
    if difference.old == "rds" and head.on_delete == "delete":
        return refused("the records of all jobs would be deleted", "set head_node.on_delete: snapshot and `up` first")
    if difference.old == "rds" and head.termination_protection:
        return refused("the database is protected from its deletion", _UNPROTECT)
    now = {"local": "by the head's own database", "rds": "by a database on RDS", "off": "no more"}[difference.new]
    return in_place(f"jobs are recorded {now} from now on; {_EARLIER_RECORDS[difference.old]}")


_EARLIER_RECORDS: dict[Any, str] = {
    "local": "earlier records stay on the head's volume",
    "rds": "earlier records stay in the database's last snapshot",
    "off": "of jobs that ended before there is no record",
}


def budget(difference: Difference, step: Step) -> Outcome:
    """What AWS Budgets did at the limit stays done, and its policy attached, unless `up` takes it back."""
    before, told = step.old.config.budget, "AWS Budgets is told"
    if before is None or before.at_limit != "stop-launches":
        return in_place(told)
    if difference.key == "budget.monthly_usd" and difference.new < difference.old:
        return in_place(told)
    again = f"{told}; where it has stopped launches, nodes can start again"
    if difference.key == "budget.email":  # the new budget begins as if nothing had happened, and learns what is spent
        again = f"{again}, until it stops them anew"
    return in_place(again, launches_again=True)
