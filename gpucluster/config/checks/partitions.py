"""Rules about one partition, and about their names together."""

from __future__ import annotations

from collections.abc import Iterator

from gpucluster.config.document import Finding, Path
from gpucluster.config.models import PARAMETER_SERVERS, ClusterConfig, Partition
from gpucluster.instances import INSTANCE_TYPES, InstanceType

Findings = Iterator[Finding]

RESERVED_NAMES = {
    PARAMETER_SERVERS: "the partition of the parameter servers",
    "head": "the head node's host name",
    "all": "Slurm's word for every node",
    "default": "Slurm's word for the settings of all partitions",
    "localhost": "every machine's own name",
}

DLAMI_LACKS = {"v100": "its driver no longer supports V100"}
"""GPU models that the Deep Learning AMIs of today cannot drive (NVIDIA's open kernel module needs Turing or newer)."""


LEAVING = ("p3",)
"""Families that AWS is withdrawing: still sold here and there."""


def findings(config: ClusterConfig) -> Iterator[Findings]:
    yield _unique_names(config)
    for index, partition in enumerate(config.partitions):
        path: Path = ("partitions", index)
        for rule in (_name, _types, _leaving, _same_gpus, _nodes, _efa, _reservation, _targeted, _one_type):
            yield rule(partition, path)
        yield _image(config, partition, path)


def _known_types(partition: Partition) -> list[tuple[int, InstanceType]]:
    """With their index in the list, from which unknown ones were refused."""
    return [
        (index, INSTANCE_TYPES[name]) for index, name in enumerate(partition.instance_types) if name in INSTANCE_TYPES
    ]


def _unique_names(config: ClusterConfig) -> Findings:
    first: dict[str, int] = {}
    for index, partition in enumerate(config.partitions):
        name = partition.__dict__.get("name")
        if name in first:
            yield Finding(("partitions", index, "name"), f"{name!r} is the name of partitions[{first[name]}] already")
        elif name is not None:
            first[name] = index


def _name(partition: Partition, path: Path) -> Findings:
    if partition.name in RESERVED_NAMES:
        what = RESERVED_NAMES[partition.name]
        yield Finding((*path, "name"), f"{partition.name!r} is taken: it is {what}", "choose another, such as train")


def _types(partition: Partition, path: Path) -> Findings:
    seen: set[str] = set()
    for index, type_ in _known_types(partition):
        if type_.name in seen:
            yield Finding((*path, "instance_types", index), f"{type_.name} is in the list already")
        seen.add(type_.name)


def _leaving(partition: Partition, path: Path) -> Findings:
    for index, type_ in _known_types(partition):
        if type_.name.partition(".")[0] in LEAVING:
            hint = "before `up`: aws ec2 describe-instance-type-offerings --location-type availability-zone"
            yield Finding(
                (*path, "instance_types", index), f"AWS is withdrawing {type_.name}: it may not launch", hint, "warning"
            )


def _same_gpus(partition: Partition, path: Path) -> Findings:
    types = _known_types(partition)
    for index, other in types[1:]:
        first = types[0][1]
        if other.gpus != first.gpus:
            yield Finding(
                (*path, "instance_types", index),
                f"{other.name} has {_gpus(other)}, {first.name} has {_gpus(first)}: all must have as many",
                "make it a partition of its own",
            )


def _gpus(type_: InstanceType) -> str:
    return f"{type_.gpus} GPU{'s' if type_.gpus != 1 else ''}"


def _nodes(partition: Partition, path: Path) -> Findings:
    if partition.min_nodes > partition.max_nodes:
        yield Finding(
            (*path, "min_nodes"), f"must be at most max_nodes ({partition.max_nodes}), got {partition.min_nodes}"
        )


def _efa(partition: Partition, path: Path) -> Findings:
    if partition.efa != "required":
        return
    types = [type_ for _, type_ in _known_types(partition)]
    without = [type_.name for type_ in types if not type_.efa_interfaces]
    if without:
        has = "has" if len(without) == 1 else "have"
        yield Finding(
            (*path, "efa"),
            f"'required' needs types with EFA interfaces, and {', '.join(without)} {has} none",
            _types_with_efa(types),
        )


def _types_with_efa(types: list[InstanceType]) -> str:
    families = {type_.name.partition(".")[0] for type_ in types}
    with_efa = [t.name for t in INSTANCE_TYPES.values() if t.efa_interfaces and t.name.partition(".")[0] in families]
    return "write efa: auto" + (f", or take one of {', '.join(with_efa)}" if with_efa else "")


def _reservation(partition: Partition, path: Path) -> Findings:
    reserved = partition.purchase in ("reservation", "capacity-block")
    if reserved and partition.reservation_id is None:
        hint = "reservation_id: cr-… names what was reserved or bought"
        yield Finding((*path, "purchase"), f"{partition.purchase!r} needs reservation_id", hint)
    if not reserved and partition.reservation_id is not None:
        hint = "write purchase: reservation or purchase: capacity-block"
        yield Finding((*path, "reservation_id"), f"does nothing with purchase: {partition.purchase}", hint)


def _targeted(partition: Partition, path: Path) -> Findings:
    """A reservation already places its instances; asking for a placement group on top makes the launch fail."""
    if partition.purchase in ("reservation", "capacity-block") and partition.placement_group != "none":
        yield Finding(
            (*path, "placement_group"),
            f"must be none with purchase: {partition.purchase}, got {partition.placement_group!r}",
            "write placement_group: none: the reservation decides where its instances are",
        )


def _one_type(partition: Partition, path: Path) -> Findings:
    if partition.purchase in ("reservation", "capacity-block") and len(partition.instance_types) > 1:
        yield Finding((*path, "instance_types"), f"must be the one type that the {partition.purchase} is for")


def _image(config: ClusterConfig, partition: Partition, path: Path) -> Findings:
    image = partition.image or config.software.image
    for index, type_ in _known_types(partition):
        if image.startswith("dlami-") and type_.gpu_model in DLAMI_LACKS:
            yield Finding(
                (*path, "instance_types", index),
                f"{type_.name} cannot run {image}: {DLAMI_LACKS[type_.gpu_model]}",
                "name an AMI with NVIDIA's proprietary driver, 580 or older, in the partition: image: ami-…",
            )
