"""Rules about one partition: its nodes, its instance types."""

from __future__ import annotations

from gpucluster.config.document import Finding, Path
from gpucluster.config.models import PARAMETER_SERVERS, ClusterConfig, ParameterServers, Partition
from gpucluster.config.validators import Findings, validator
from gpucluster.instances import INSTANCE_TYPES, InstanceType

SECTION = "Partitions"

RESERVED_NAMES = {
    PARAMETER_SERVERS: "the partition of the parameter servers",
    "head": "the head node's host name",
    "all": "Slurm's word for every node",
    "default": "Slurm's word for the settings of all partitions",
    "localhost": "every machine's own name",
}

LEAVING = ("p3",)
"""Families that AWS is withdrawing: still sold here and there."""


def known_types(partition: Partition) -> list[tuple[int, InstanceType]]:
    """With their index in the list, from which unknown ones were refused."""
    return [
        (index, INSTANCE_TYPES[name]) for index, name in enumerate(partition.instance_types) if name in INSTANCE_TYPES
    ]


@validator(
    "partition-name-unique",
    section=SECTION,
    each=ClusterConfig,
    source="man slurm.conf.5: PartitionName: slurmctld is fatal at a duplicate partition",
)
def partition_name_unique(config: ClusterConfig) -> Findings:
    """Each partition has a name of its own."""
    first: dict[str, int] = {}
    for index, partition in enumerate(config.partitions):
        name = partition.__dict__.get("name")
        if name in first:
            yield Finding(("partitions", index, "name"), f"{name!r} is the name of partitions[{first[name]}] already")
        elif name is not None:
            first[name] = index


@validator(
    "partition-name-free",
    section=SECTION,
    each=Partition,
    source="man slurm.conf.5: NodeName and PartitionName: DEFAULT, ALL and localhost are keywords",
)
def partition_name_free(partition: Partition, path: Path, config: ClusterConfig) -> Findings:
    """A partition is not called all, default, localhost, head or ps: those names are taken."""
    if partition.name in RESERVED_NAMES:
        what = RESERVED_NAMES[partition.name]
        yield Finding((*path, "name"), f"{partition.name!r} is taken: it is {what}", "choose another, such as train")


@validator(
    "partition-types-unique",
    section=SECTION,
    each=Partition,
    source="https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateFleet.html: "
    "InvalidFleetConfig: Duplicate instance type",
)
def partition_types_unique(partition: Partition, path: Path, config: ClusterConfig) -> Findings:
    """No instance type stands twice in a partition's list."""
    seen: set[str] = set()
    for index, type_ in known_types(partition):
        if type_.name in seen:
            yield Finding((*path, "instance_types", index), f"{type_.name} is in the list already")
        seen.add(type_.name)


@validator(
    "partition-type-is-leaving",
    section=SECTION,
    each=Partition,
    level="warning",
    source="https://aws.amazon.com/ec2/instance-types/p3/: error Unsupported of EC2 RunInstances where it is gone",
)
def partition_type_is_leaving(partition: Partition, path: Path, config: ClusterConfig) -> Findings:
    """No instance type is one that AWS withdraws."""
    for index, type_ in known_types(partition):
        if type_.name.partition(".")[0] in LEAVING:
            hint = "before `up`: aws ec2 describe-instance-type-offerings --location-type availability-zone"
            yield Finding((*path, "instance_types", index), f"AWS is withdrawing {type_.name}: it may not launch", hint)


@validator(
    "partition-types-same-gpus",
    section=SECTION,
    each=Partition,
    source="man gres.conf.5 and slurm.conf.5: a node that registers with another count of GRES is drained",
)
def partition_types_same_gpus(partition: Partition, path: Path, config: ClusterConfig) -> Findings:
    """All instance types of a partition have the same number of GPUs."""
    types = known_types(partition)
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


@validator(
    "partition-min-nodes",
    section=SECTION,
    each=Partition,
    source="man slurm.conf.5: SuspendExcNodes: a node that no NodeName line defines is an invalid node specified",
)
def partition_min_nodes(partition: Partition, path: Path, config: ClusterConfig) -> Findings:
    """min_nodes is at most max_nodes."""
    yield from _min_nodes(partition, path)


@validator(
    "servers-min-nodes",
    section="Parameter servers",
    each=ParameterServers,
    source="man slurm.conf.5: SuspendExcNodes: a node that no NodeName line defines is an invalid node specified",
)
def servers_min_nodes(servers: ParameterServers, path: Path, config: ClusterConfig) -> Findings:
    """The parameter servers' min_nodes is at most their max_nodes."""
    yield from _min_nodes(servers, path)


def _min_nodes(nodes: Partition | ParameterServers, path: Path) -> Findings:
    if nodes.min_nodes > nodes.max_nodes:
        yield Finding((*path, "min_nodes"), f"must be at most max_nodes ({nodes.max_nodes}), got {nodes.min_nodes}")
