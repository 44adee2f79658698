"""Rules about one partition: its nodes, its instance types."""

from __future__ import annotations

from gpucluster.config.checks.names import LOGICAL_IDS
from gpucluster.config.document import Finding, Path
from gpucluster.config.models import ClusterConfig
from gpucluster.config.nodes import HeadNode, ParameterServers, Partition
from gpucluster.config.validators import Findings, Validators
from gpucluster.hardware.instances import INSTANCE_TYPES, InstanceType

validator = Validators("Partitions")

PARAMETER_BYTES = 4096
TEMPLATE_BYTES = 110
"""One instance type in a partition's SSM parameter: its name, its launch template's id and version, as JSON."""

SUSPEND_TIME_MAX_S = 2**32 - 3
"""Slurm stores it in 32 bits, whose two highest values mean INFINITE and "not set"."""


def known_types(partition: Partition) -> list[tuple[int, InstanceType]]:
    """The types with their index in the list, without unknown ones, which were refused."""
    return [
        (index, INSTANCE_TYPES[name]) for index, name in enumerate(partition.instance_types) if name in INSTANCE_TYPES
    ]


@validator("partition-types-unique", f"{LOGICAL_IDS}: a partition has one launch template for a type")
def partition_types_unique(partition: Partition, path: Path, config: ClusterConfig) -> Findings:
    """No instance type is listed twice in a partition."""
    seen: set[str] = set()
    for index, type_ in known_types(partition):
        if type_.name in seen:
            yield Finding((*path, "instance_types", index), f"{type_.name} is already in the list")
        seen.add(type_.name)


@validator(
    "partition-types-same-gpus",
    "man slurm.conf.5: a node that registers with less GRES than its NodeName line says is drained",
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
                "move it to its own partition",
            )


def _gpus(type_: InstanceType) -> str:
    return f"{type_.gpus} GPU{'s' if type_.gpus != 1 else ''}"


@validator(
    "threads-per-core-possible",
    "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/cpu-options-supported-instances-values.html; "
    "error InvalidParameterValue of EC2 RunInstances: CpuOptions",
)
def threads_per_core_possible(
    nodes: HeadNode | Partition | ParameterServers, path: Path, config: ClusterConfig
) -> Findings:
    """EC2 launches the instance types with threads_per_core: it cannot on bare metal, and some types have one only."""
    names = nodes.instance_types if isinstance(nodes, Partition) else (nodes.instance_type,)
    threads = nodes.threads_per_core
    for type_ in (INSTANCE_TYPES[name] for name in names if threads and name in INSTANCE_TYPES):
        if threads == 1 and not type_.one_thread:
            fault = f"EC2 cannot launch {type_.name} with one thread a core"
        elif threads == 2 and type_.default_threads == 1:
            fault = f"{type_.name} has one thread a core"
        else:
            continue
        yield Finding((*path, "threads_per_core"), fault, "leave threads_per_core out, or take another instance type")


@validator("partition-types-same-threads", "man slurm.conf.5: NodeName: ThreadsPerCore: a node line has one value")
def partition_types_same_threads(partition: Partition, path: Path, config: ClusterConfig) -> Findings:
    """All instance types of a partition have the same number of threads a core."""
    types = known_types(partition)
    for index, other in types[1:]:
        first = types[0][1]
        if other.default_threads != first.default_threads and not partition.threads_per_core:
            yield Finding(
                (*path, "instance_types", index),
                f"{other.name} has {_threads(other)}, {first.name} has {_threads(first)}: all must have as many",
                "write threads_per_core: 1, or move it to its own partition",
            )


def _threads(type_: InstanceType) -> str:
    return f"{type_.default_threads} thread{'s' if type_.default_threads != 1 else ''} a core"


VERY_DIFFERENT = 2
"""Types whose CPUs or whose memory of a GPU differ by no more than this factor are a usual mix, for capacity."""
ITS_OWN = "move it to its own partition, or silence this check"


@validator(
    "partition-types-alike",
    "man slurm.conf.5: NodeName: a node may have more than its line says, and jobs get what the line says",
    level="warning",
)
def partition_types_alike(partition: Partition, path: Path, config: ClusterConfig) -> Findings:
    """No instance type of a partition has more than twice another's CPUs or memory of a GPU."""
    types = known_types(partition)
    if len({type_.gpus for _, type_ in types}) != 1:  # none, or partition-types-same-gpus refuses them
        return
    fewest = min((type_ for _, type_ in types), key=lambda type_: type_.vcpus)
    smallest = min((type_ for _, type_ in types), key=lambda type_: type_.gpu_memory_mib)
    for index, type_ in types:
        if type_.vcpus > VERY_DIFFERENT * fewest.vcpus:
            used = f"{type_.name} is used with {fewest.vcpus} of its {type_.vcpus} CPUs, as many as {fewest.name} has"
            one = "Slurm has one definition for all nodes of a partition"
            yield Finding((*path, "instance_types", index), f"{used}: {one}", ITS_OWN)
        if smallest.gpus and type_.gpu_memory_mib > VERY_DIFFERENT * smallest.gpu_memory_mib:
            models = f"{type_.name} has {_model(type_)}, {smallest.name} has {_model(smallest)}"
            lost = "a job may get both, at the speed of the slower, and cannot ask for one"
            yield Finding((*path, "instance_types", index), f"{models}: {lost}", ITS_OWN)


def _model(type_: InstanceType) -> str:
    return f"{(type_.gpu_model or '').upper()} with {type_.gpu_memory_mib / 1024:.0f} GiB"


@validator("partition-types-fit-parameter", "AWS::SSM::Parameter Value: 4096 characters in the standard tier")
def partition_types_fit_parameter(partition: Partition, path: Path, config: ClusterConfig) -> Findings:
    """A partition's list of instance types fits the SSM parameter that the head node launches from."""
    most = (PARAMETER_BYTES - TEMPLATE_BYTES) // TEMPLATE_BYTES
    if len(partition.instance_types) > most:
        yield Finding(
            (*path, "instance_types"),
            f"has {len(partition.instance_types)} types; the SSM parameter that lists them holds {most}",
            "split them into two partitions",
        )


@validator("partition-min-nodes", "man slurm.conf.5: SuspendExcNodes: a node that no NodeName line defines is refused")
def partition_min_nodes(nodes: Partition | ParameterServers, path: Path, config: ClusterConfig) -> Findings:
    """min_nodes is at most max_nodes."""
    if nodes.min_nodes > nodes.max_nodes:
        yield Finding((*path, "min_nodes"), f"must be at most max_nodes ({nodes.max_nodes}), got {nodes.min_nodes}")


@validator(
    "idle-minutes-in-range",
    "man slurm.conf.5: SuspendTime: seconds, an unsigned number of 32 bits; 0 ends a node as soon as it is idle",
)
def idle_minutes_in_range(partition: Partition, path: Path, config: ClusterConfig) -> Findings:
    """idle_minutes is at least one second, and at most what Slurm can count."""
    seconds = partition.idle_minutes * 60
    if not 1 <= seconds <= SUSPEND_TIME_MAX_S:
        yield Finding(
            (*path, "idle_minutes"),
            f"must be 1/60 to {SUSPEND_TIME_MAX_S // 60}, got {partition.idle_minutes:g}",
            "to keep nodes running, set min_nodes",
        )
