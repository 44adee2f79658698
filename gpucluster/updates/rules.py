"""Policies that depend on the values: a larger volume has another effect than a smaller one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from gpucluster.config import PARAMETER_SERVERS
from gpucluster.config.checks.root_volume import DEFAULT_GIB, PUBLISHED_GIB
from gpucluster.config.outcome import (
    Difference,
    Drain,
    Effect,
    Outcome,
    Rule,
    by_rule,
    drain,
    head_replaced,
    head_restarts,
    in_place,
    new_nodes,
    nothing,
    refused,
)
from gpucluster.config.storage import Mount
from gpucluster.hardware.instances import INSTANCE_TYPES
from gpucluster.layout import Group, Layout
from gpucluster.updates.node_lines import node_lines

NEW_CLUSTER = "create a new cluster under another name, and copy what you need"
REPLACED_AS_FREE = "running nodes are replaced as their jobs end"


@dataclass(frozen=True)
class Step:
    """An update from one cluster to the next."""

    old: Layout
    new: Layout


def partition_of(difference: Difference) -> str:
    """The partition of the key; keys of parameter_servers belong to `ps`."""
    return difference.entries[0] if difference.entries else PARAMETER_SERVERS


def every_partition(layout: Layout) -> tuple[Drain, ...]:
    return tuple(map(Drain, layout.names))


def internet(difference: Difference, step: Step) -> Outcome:
    if difference.new == "nat":
        return in_place("nodes reach the internet through a NAT gateway")
    what = "endpoints replace the NAT gateway: a job that uses the internet would fail"
    return Outcome(Effect.DRAIN, what, drains=every_partition(step.old))


def removed_partition(difference: Difference, step: Step) -> Outcome:
    name, what = partition_of(difference), "its nodes are terminated; Slurm rejects its pending jobs"
    drains = _in_group_of(name, step)
    if len(drains) > 1:
        what += "; its placement group, which the parameter servers share, is deleted"
    return drain(what, *drains)


def _in_group_of(name: str, step: Step) -> tuple[Drain, ...]:
    """The partition's nodes, and those of another partition that shares its placement group."""
    sharing = (each.name for each in step.old.partitions if each.group == Group(name, ours=True))
    return tuple(map(Drain, dict.fromkeys([name, *sharing])))


def moved_servers(step: Step) -> Iterator[Difference]:
    """An indirect change: `shared` now means another group than before."""
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
    return drain(f"{_nodes(name, difference.new, difference.old)} must be removed", Drain(name, above=difference.new))


def _nodes(partition: str, above: int, last: int) -> str:
    first = f"{partition}-{above + 1}"
    return first if last == above + 1 else f"{first} to {partition}-{last}"


def least_nodes(difference: Difference, step: Step) -> Outcome:
    if difference.new > difference.old:
        return in_place(
            f"{_nodes(partition_of(difference), difference.old, difference.new)} will be launched and stay on"
        )
    return in_place(f"{_nodes(partition_of(difference), difference.new, difference.old)} will be terminated when idle")


def instance_types(difference: Difference, step: Step) -> Outcome:
    """Slurm's node line has the minimum over all types, and Slurm refuses a node that has less than its line."""
    name = partition_of(difference)
    before, after = (node_lines(layout)[name] for layout in (step.old, step.new))
    if before != after:
        return drain(f"Slurm's node definition becomes {after} instead of {before}", Drain(name))
    return new_nodes("new nodes use these types; a running node of a removed type is replaced as its jobs end")


def threads_of_head(difference: Difference, step: Step) -> Outcome:
    heads = (layout.config.head_node for layout in (step.old, step.new))
    before, after = (INSTANCE_TYPES[each.instance_type].launched_with(each.threads_per_core) for each in heads)
    if before.default_threads == after.default_threads:
        return nothing(_SAME_THREADS)
    return head_replaced("a new head node with these threads takes over the data volume")


_SAME_THREADS = "as many threads a core as before"


def threads(difference: Difference, step: Step) -> Outcome:
    name = partition_of(difference)
    if node_lines(step.old)[name] == node_lines(step.new)[name]:
        return nothing(_SAME_THREADS)
    return drain("Slurm's node definition has other CPUs", Drain(name))


def root_gib(other: Outcome) -> Rule[Step]:
    """`other`: of a disk of another size. The default written out changes nothing; only `up` knows that of an AMI."""

    def rule(difference: Difference, step: Step) -> Outcome:
        sizes = {value or DEFAULT_GIB for value in (difference.old, difference.new)}
        published = all(_image_of(difference, each) in PUBLISHED_GIB for each in (step.old, step.new))
        return nothing("the size that the disk has by default") if published and len(sizes) == 1 else other

    return rule


def _image_of(difference: Difference, layout: Layout) -> str:
    of_head = difference.key.startswith("head_node.")
    return layout.head_image if of_head else layout.partition(partition_of(difference)).image


def image_of_nodes(difference: Difference, step: Step) -> Outcome:
    name = partition_of(difference)
    before, after = (layout.partition(name).image for layout in (step.old, step.new))
    if before == after:
        return nothing("the same image, named by another key")
    return new_nodes(f"new nodes boot from it; {REPLACED_AS_FREE}")


def type_of_head(difference: Difference, step: Step) -> Outcome:
    """CloudFormation replaces an instance to change its CpuOptions, which have the number of its cores."""
    if any(layout.config.head_node.threads_per_core == 1 for layout in (step.old, step.new)):
        return head_replaced("with threads_per_core, a new head node takes over the data volume")
    return head_restarts("the head node stops and starts again; jobs wait for it for some minutes")


def image_of_head(difference: Difference, step: Step) -> Outcome:
    before, after = (layout.head_image for layout in (step.old, step.new))
    if before == after:
        return nothing("the same image, named by another key")
    return head_replaced("a new head node takes over the data volume: /home and Slurm's state are kept")


_UNPROTECT = "set head_node.termination_protection: false and run `up`; then change this, and protect the cluster again"


def image_of_all(difference: Difference, step: Step) -> Outcome:
    """The head node and partitions without their own image use software.image."""
    head = step.old.config.head_node.image is None and step.new.config.head_node.image is None
    if head:
        return head_replaced("a new head node takes over the data volume; new nodes boot from the new image too")
    return new_nodes(f"new nodes boot from it; {REPLACED_AS_FREE}")


def placement_group(difference: Difference, step: Step) -> Outcome:
    """A group that the stack created cannot be deleted while an instance is in it."""
    if difference.old != "cluster":
        return new_nodes(f"applies to new nodes; {REPLACED_AS_FREE}")
    return drain("its placement group is deleted, so it must be empty", *_in_group_of(partition_of(difference), step))


def gres_lines(difference: Difference, step: Step) -> Outcome:
    return drain("slurmd reads gres.conf when it starts", *every_partition(step.old))


_OF_THE_CONTROLLER = {"weight", "feature", "features", "tresweights", "tmpdisk"}
"""Options of nodes that only slurmctld uses."""


def node_options(difference: Difference, step: Step) -> Outcome:
    changed = set(difference.old.items()) ^ set(difference.new.items())
    if {name.lower() for name, _ in changed} <= _OF_THE_CONTROLLER:
        return in_place("slurmctld restarts; running jobs stay")
    return drain("Slurm's node definition changes", Drain(partition_of(difference)))


def memory(difference: Difference, step: Step) -> Outcome:
    """Slurm counts no memory of jobs that started before, and slurmd reads cgroup.conf when it starts."""
    what = "reserves and limits jobs' memory" if difference.new == "allocated" else "no longer counts memory"
    return drain(f"Slurm {what}; jobs that run would not be counted right", *every_partition(step.old))


def removed_storage(difference: Difference, step: Step) -> Outcome:
    return _entry(step.old, difference).removed(step.old)


def added_storage(difference: Difference, step: Step) -> Outcome:
    return _entry(step.new, difference).added()


def changed_storage(difference: Difference, step: Step) -> Outcome:
    """Kinds may have keys of the same name."""
    kind = _entry(step.new, difference)
    return by_rule(difference, step, kind.updates[difference.key.removeprefix("storage[].")])


def other_storage_type(difference: Difference, step: Step) -> Outcome:
    if difference.entries[0] == "/home":
        return refused("the files in /home would not be moved", NEW_CLUSTER)
    return _entry(step.old, difference).replaced(step.old)


def _entry(layout: Layout, difference: Difference) -> Mount:
    return next(each for each in layout.mounts if each.mount == difference.entries[0])


def accounting(difference: Difference, step: Step) -> Outcome:
    """The database on RDS is kept, deleted and protected like the head node's volume."""
    head = step.old.config.head_node
    if difference.old == "rds" and head.on_delete == "delete":
        return refused("the records of all jobs would be deleted", "first set head_node.on_delete: snapshot, then `up`")
    if difference.old == "rds" and head.termination_protection:
        return refused("the database is protected against deletion", _UNPROTECT)
    now = {"local": "in the head node's database", "rds": "in a database on RDS", "off": "no longer"}[difference.new]
    return in_place(f"jobs are recorded {now} from now on; {_EARLIER_RECORDS[difference.old]}")


_EARLIER_RECORDS: dict[Any, str] = {
    "local": "earlier records stay on the head node's volume",
    "rds": "earlier records stay in the database's last snapshot",
    "off": "there are no records of earlier jobs",
}


def budget(difference: Difference, step: Step) -> Outcome:
    """The stop by AWS Budgets stays in force, with its policy attached, unless `up` lifts it."""
    before, updated = step.old.config.budget, "AWS Budgets is updated"
    if before is None or not before.stops_launches:
        return in_place(updated)
    if difference.key == "budget.monthly_usd" and difference.new < difference.old:
        return in_place(updated)
    again = f"{updated}; if it has stopped launches, nodes can start again"
    if difference.key == "budget.email":  # the new budget starts at zero until AWS reports what was spent
        again = f"{again}, until it stops launches again"
    return in_place(again, launches_again=True)
