"""Rules about EFA: which types have it, and what it needs around it."""

from __future__ import annotations

from gpucluster.config.checks.partitions import known_types
from gpucluster.config.document import Finding, Path
from gpucluster.config.models import ClusterConfig, Partition
from gpucluster.config.validators import Findings, validator
from gpucluster.hardware.instances import INSTANCE_TYPES, InstanceType

SECTION = "EFA"

EFA = "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa.html"
EFA_TYPES = "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-acc-inst-types.html"


@validator(
    "efa-required-needs-efa-types",
    section=SECTION,
    each=Partition,
    source=f"{EFA}: supported instance types; error InvalidParameterCombination of EC2 RunInstances",
)
def efa_required_needs_efa_types(partition: Partition, path: Path, config: ClusterConfig) -> Findings:
    """With efa: required, every instance type has EFA."""
    if partition.efa != "required":
        return
    types = [type_ for _, type_ in known_types(partition)]
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


@validator(
    "efa-types-alike",
    section=SECTION,
    each=Partition,
    level="warning",
    source=f"{EFA}: OS-bypass traffic is between EFA interfaces only; a job's nodes may be of any type in the list",
)
def efa_types_alike(partition: Partition, path: Path, config: ClusterConfig) -> Findings:
    """With EFA, all instance types of a partition have it."""
    types = [type_ for _, type_ in known_types(partition)]
    if partition.efa != "auto" or len({type_.gpus for type_ in types}) > 1:
        return
    with_efa = [type_.name for type_ in types if type_.efa_interfaces]
    without = [type_.name for type_ in types if not type_.efa_interfaces]
    if with_efa and without:
        yield Finding(
            (*path, "instance_types"),
            f"{', '.join(without)} without EFA beside {', '.join(with_efa)} with it: "
            "a job that gets both has no common network but TCP",
            "make it a partition of its own, or write efa: off",
        )


@validator(
    "efa-not-off",
    section=SECTION,
    each=Partition,
    level="warning",
    source=f"{EFA_TYPES}: an EFA interface cannot be attached to a running instance",
)
def efa_not_off(partition: Partition, path: Path, config: ClusterConfig) -> Findings:
    """efa: off is not for nodes with eight GPUs and EFA: their jobs would be left with TCP."""
    large = [type_.name for _, type_ in known_types(partition) if type_.gpus >= 8 and type_.efa_interfaces]
    if partition.efa == "off" and large and partition.max_nodes > 1:
        yield Finding(
            (*path, "efa"),
            f"'off' leaves jobs on {large[0]} with TCP between nodes",
            "write efa: auto, unless that is what you measure",
        )


@validator(
    "efa-close-together",
    section=SECTION,
    each=Partition,
    level="warning",
    source="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-start.html: "
    "launch EFA instances into a cluster placement group",
)
def efa_close_together(partition: Partition, path: Path, config: ClusterConfig) -> Findings:
    """Nodes with eight GPUs and EFA, bought on demand, are in a placement group."""
    if partition.efa == "off" or partition.placement_group != "none" or partition.max_nodes < 2:
        return
    large = [type_.name for _, type_ in known_types(partition) if type_.gpus >= 8 and type_.efa_interfaces]
    if partition.purchase == "on-demand" and large:
        yield Finding(
            (*path, "placement_group"),
            f"'none' lets {large[0]} nodes be far apart: EFA is slower there",
            "leave it out, or write placement_group: cluster",
        )
