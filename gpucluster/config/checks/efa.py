"""Rules about EFA: the types that have it, and its requirements."""

from __future__ import annotations

from gpucluster.config.checks.partitions import known_types
from gpucluster.config.document import Finding, Path
from gpucluster.config.models import ClusterConfig
from gpucluster.config.nodes import Partition
from gpucluster.config.validators import Findings, Validators
from gpucluster.hardware.instances import INSTANCE_TYPES, InstanceType

validator = Validators("EFA")

EFA = "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa.html"


@validator(
    "efa-required-needs-efa-types",
    f"{EFA}: supported instance types; error InvalidParameterCombination of EC2 RunInstances",
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
