"""The head node, and queues as partitions."""

from __future__ import annotations

from typing import Any

from gpucluster.hardware.instances import INSTANCE_TYPES
from gpucluster.hardware.unsupported import not_supported
from gpucluster.parallelcluster.conversion import (
    Conversion,
    image,
    item,
    root_volume,
    scripts,
    security_groups,
    threads,
)
from gpucluster.parallelcluster.lines import Item, entry
from gpucluster.parallelcluster.names import head_type, partition_name
from gpucluster.parallelcluster.reading import Node

AMI_GIB = 100
"""The default of root_volume.gib, which the Deep Learning AMI fits into."""
DEFAULT_MAX = 10
"""pcluster/constants.py of 3.16.1: DEFAULT_MAX_COUNT."""
_PURCHASES = {"ONDEMAND": "on-demand", "SPOT": "spot", "CAPACITY_BLOCK": "capacity-block"}


def head_node(conversion: Conversion, home_elsewhere: bool) -> Item:
    """`home_elsewhere`: whether a file system of its own holds /home."""
    node = conversion.file.section("HeadNode")
    timeouts = conversion.file.section("DevSettings", "Timeouts")
    items = [_head_type(node, conversion), _volume(node, home_elsewhere), root_volume(node, AMI_GIB), threads(node)]
    items += [security_groups(node, conversion), scripts(node, timeouts, "HeadNodeBootstrapTimeout"), image(node)]
    return Item("head_node", [each for each in items if each])


def _head_type(node: Node, conversion: Conversion) -> Item | None:
    asked = node.text("InstanceType")
    if not asked:
        return None
    ours = head_type(asked)
    if ours == asked:
        return item("instance_type", asked, node, "InstanceType")
    why = not_supported(asked) or "the head node needs a Nitro type"
    conversion.check(f"head_node.instance_type is {ours}, because it cannot be {asked}: {why}")
    return item("instance_type", ours, node, "InstanceType", words=f"{asked} cannot be the head node: {why}")


def _volume(node: Node, home_elsewhere: bool) -> Item | None:
    if home_elsewhere:
        return Item("volume_gib", 50, "Slurm's state and accounting; /home is on a file system of its own")
    size = node.section("LocalStorage", "RootVolume").number("Size")
    if size is None:
        return None
    return Item("volume_gib", max(size, 10), "holds /home, which was on the root disk: LocalStorage.RootVolume.Size")


def partitions(conversion: Conversion, scratch_taken: bool) -> Item:
    """`scratch_taken`: whether a file system is mounted at /scratch."""
    taken: set[str] = set()
    made = []
    for queue in conversion.file.section("Scheduling").sections("SlurmQueues"):
        resources = queue.sections("ComputeResources")
        for resource in resources:
            made.append(_partition(queue, resource, len(resources) > 1, taken, conversion, scratch_taken))
    return Item("partitions", made)


def _partition(
    queue: Node, resource: Node, several: bool, taken: set[str], conversion: Conversion, scratch_taken: bool
) -> Item:
    types = _types(resource)
    made = entry(
        _name(queue, resource, several, taken, conversion),
        _instance_types(resource, types),
        *_counts(resource),
        _idle(conversion),
        *_purchase(queue, resource, conversion),
        _efa(resource, types),
        threads(resource),
        _scratch(queue, types, scratch_taken),
        root_volume(queue.section("ComputeSettings"), AMI_GIB),
        security_groups(queue, conversion),
        *_options(queue, resource),
        scripts(queue, conversion.file.section("DevSettings", "Timeouts"), "ComputeNodeBootstrapTimeout"),
        image(queue),
    )
    if why := _unusable(resource, types):
        made.off = f"{queue.text('Name')}: not carried over: {why}"
        conversion.check(f"partition {made.below[0].value} is a comment: {why}")
    return made


def _unusable(resource: Node, types: list[str]) -> str:
    if resource.number("MaxCount") == 0:
        return "MaxCount is 0, and a partition has at least one node"
    if types and not any(each in INSTANCE_TYPES for each in types):
        return f"{types[0]}: {not_supported(types[0]) or 'GpuCluster does not know this instance type'}"
    return ""


def _name(queue: Node, resource: Node, several: bool, taken: set[str], conversion: Conversion) -> Item:
    asked, part = queue.text("Name", "queue"), resource.text("Name")
    name = partition_name(asked, [part, *_types(resource)] if several else [], taken)
    if name != asked:
        conversion.renamed.setdefault(asked, []).append(name)
    said = item(
        "name", name, queue, "Name", needed=True, words="" if name == asked else f"{asked}{f', {part}' * several}"
    )
    said.sources += ((*resource.path, "Name"),)
    return said


def _types(resource: Node) -> list[str]:
    one = resource.text("InstanceType")
    several = [each.text("InstanceType") for each in resource.sections("Instances")]
    return list(dict.fromkeys(each for each in (one, *several) if each))


def _instance_types(resource: Node, types: list[str]) -> Item:
    usable = [each for each in types if each in INSTANCE_TYPES] or types
    dropped = [each for each in types if each not in usable]
    source = "Instances" if "Instances" in resource.data else "InstanceType"
    made = item("instance_types", usable, resource, source, needed=True)
    if dropped:
        made.above = [f"without {each}: {not_supported(each) or 'not a known type'}" for each in dropped]
    return made


def _counts(resource: Node) -> list[Item | None]:
    """A value that is no number stays as it is, and is refused."""
    least, most = (resource.number(key, resource.data.get(key)) for key in ("MinCount", "MaxCount"))
    fewest = least if isinstance(least, int) else 0
    return [
        item("min_nodes", least, resource, "MinCount", needed=True) if least is not None else None,
        item("max_nodes", max(DEFAULT_MAX, fewest) if most is None else most, resource, "MaxCount", needed=True),
    ]


def _idle(conversion: Conversion) -> Item | None:
    settings = conversion.file.section("Scheduling", "SlurmSettings")
    minutes = settings.number("ScaledownIdletime")
    if minutes is not None and minutes < 1:
        settings.leave("ScaledownIdletime", "nodes that never end have min_nodes: set it to max_nodes")
        return None
    return item("idle_minutes", minutes, settings, "ScaledownIdletime") if minutes is not None else None


def _purchase(queue: Node, resource: Node, conversion: Conversion) -> list[Item | None]:
    kind = _PURCHASES.get(queue.text("CapacityType", "ONDEMAND"), "on-demand")
    at = resource if resource.section("CapacityReservationTarget") else queue
    reservation = at.section("CapacityReservationTarget").text("CapacityReservationId")
    if reservation:
        kind = kind if kind == "capacity-block" else "reservation"
        conversion.needs_zone.append(reservation)
    listed = "CapacityType" in queue.data or reservation
    bought = [item("purchase", kind, queue, "CapacityType", needed=True)] if listed else []
    if reservation:
        bought.append(item("reservation_id", reservation, at, "CapacityReservationTarget", needed=True))
    return [*bought, _group(queue, resource, kind)]


def _group(queue: Node, resource: Node, purchase: str) -> Item | None:
    at = resource if resource.section("Networking", "PlacementGroup") else queue
    group = at.section("Networking", "PlacementGroup")
    name = group.text("Name") or group.text("Id")
    enabled = bool(group.flag("Enabled")) or bool(name)
    source = "Networking.PlacementGroup"
    if enabled and purchase in ("reservation", "capacity-block") and (not name or purchase == "capacity-block"):
        words = "the reservation decides where its nodes are"
        return item("placement_group", "none", at, source, words=words)
    apart = [each for each in _types(resource) if each in INSTANCE_TYPES and not INSTANCE_TYPES[each].close_together]
    if enabled and apart:
        return item("placement_group", "none", at, source, words=f"EC2 puts no {apart[0]} into a group")
    value = name or ("cluster" if enabled else "none")
    return item("placement_group", value, at, source) if group else Item("placement_group", value, "no PlacementGroup")


def _efa(resource: Node, types: list[str]) -> Item | None:
    enabled = resource.section("Efa").flag("Enabled")
    if enabled is None and any(INSTANCE_TYPES[each].efa_interfaces for each in types if each in INSTANCE_TYPES):
        return Item(
            "efa", "auto", "the file does not switch EFA on; here types that have it use it, unless you write off"
        )
    return item("efa", "auto" if enabled else "off", resource, "Efa.Enabled") if enabled is not None else None


def _scratch(queue: Node, types: list[str], taken: bool) -> Item | None:
    mount = queue.section("ComputeSettings", "LocalStorage", "EphemeralVolume").text("MountDir")
    disks = any(INSTANCE_TYPES[each].nvme_gb for each in types if each in INSTANCE_TYPES)
    if taken and disks:
        return Item("scratch", "off", "a file system is mounted at /scratch")
    if not mount:
        return None
    words = "no local NVMe disks in this type" if not disks else ""
    if disks and mount != "/scratch":
        words = f"at /scratch here, not at {mount}: change scripts"
    return item("scratch", "auto", queue, "ComputeSettings.LocalStorage.EphemeralVolume.MountDir", words=words)


def _options(queue: Node, resource: Node) -> list[Item | None]:
    partition: dict[str, Any] = dict(queue.settings("CustomSlurmSettings"))
    sources = ["CustomSlurmSettings"] if partition else []
    if queue.flag("JobExclusiveAllocation"):
        partition["OverSubscribe"] = "EXCLUSIVE"
        sources.append("JobExclusiveAllocation")
    else:
        queue.leave("JobExclusiveAllocation", "false is the default of sbatch here, too", "unneeded")
    own = resource.settings("CustomSlurmSettings")
    node: dict[str, Any] = {key: _number(value) for key, value in own.items() if key != "ThreadsPerCore"}
    return [
        item("partition_options", partition, queue, *sources) if partition else None,
        item("node_options", node, resource, "CustomSlurmSettings") if node else None,
    ]


def _number(value: str) -> Any:
    return int(value) if value.isdigit() else value
