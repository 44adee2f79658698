"""Rules about placement groups."""

from __future__ import annotations

from gpucluster.config.checks.partitions import known_types
from gpucluster.config.document import Finding, Path
from gpucluster.config.models import ClusterConfig
from gpucluster.config.nodes import ParameterServers, Partition
from gpucluster.config.validators import Findings, Validators
from gpucluster.meant import near

validator = Validators("Placement groups")

OTHER_STRATEGIES = ("spread", "partition", "precision-time")


@validator(
    "placement-group-not-a-strategy",
    "AWS::EC2::PlacementGroup Strategy: cluster, partition, spread or precision-time",
)
def not_a_strategy(nodes: Partition | ParameterServers, path: Path, config: ClusterConfig) -> Findings:
    """A placement group is not named after a strategy of EC2, such as spread, that placement_group does not accept."""
    if nodes.placement_group in {*OTHER_STRATEGIES, "cluster"} - {nodes.own_group}:
        yield Finding(
            (*path, "placement_group"),
            f"{nodes.placement_group!r} is a strategy of EC2, and would be taken for a group's name",
            f"write {nodes.own_group}, none or the name of a group that exists",
        )


@validator(
    "placement-group-not-misspelt",
    "error InvalidPlacementGroup.Unknown of EC2 RunInstances: at the first job, not at the deployment",
)
def not_misspelt(nodes: Partition | ParameterServers, path: Path, config: ClusterConfig) -> Findings:
    """A placement group's name is not a misspelt cluster, none or (for parameter servers) shared, nor a word such as
    off."""
    meant = _nearly(nodes.placement_group, (nodes.own_group, "none"))
    if meant:
        yield Finding(
            (*path, "placement_group"),
            f"{nodes.placement_group!r} would be taken for the name of a group that exists",
            f"did you mean {meant!r}?",
        )


@validator(
    "placement-group-takes-types",
    "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/limitations-placement-groups.html: cluster; "
    "https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_InstanceTypeInfo.html: PlacementGroupInfo; "
    "error InvalidParameterCombination of EC2 RunInstances",
)
def takes_types(nodes: Partition | ParameterServers, path: Path, config: ClusterConfig) -> Findings:
    """A partition whose nodes are launched close together has no instance types that EC2 launches nowhere so: burstable
    ones (T2, T3 …), flexible ones (M7i-flex …), and the oldest."""
    partition = nodes.partition() if isinstance(nodes, ParameterServers) else nodes
    apart = [type_.name for _, type_ in known_types(partition) if not type_.close_together]
    if apart and nodes.placement_group == nodes.own_group and _makes_group(nodes, config):
        yield Finding(
            (*path, "placement_group"),
            f"EC2 launches no {', '.join(apart)} into a group of nodes close together",
            "write placement_group: none, or take another instance type, such as m6i",
        )


def _makes_group(nodes: Partition | ParameterServers, config: ClusterConfig) -> bool:
    """Instances of a reservation go into its group; parameter servers share a partition's group if there is one."""
    partitions = config.partitions if isinstance(nodes, ParameterServers) else (nodes,)
    return any(each.placement_group == each.own_group and each.purchase in ("on-demand", "spot") for each in partitions)


OFF = ("off", "no", "false", "disabled", "disable", "never", "null", "nil", "empty", "0")
ON = ("on", "yes", "true", "enabled", "enable", "auto", "automatic", "default", "new", "1")
"""Values that other keys or other tools take: ParallelCluster has Enabled: true or false."""


def _nearly(group: str, words: tuple[str, str]) -> str | None:
    """The value that was probably meant: `words` are those for a group of the stack, and for none. `cluster-1` and
    `my-cluster` are names; a misspelt value has only letters and about the same length."""
    own, none = words
    if group.lower() in (*ON, *OFF):
        return own if group.lower() in ON else none
    if group in words or not group.isalpha():
        return None
    return next((word for word in near(group, words) if abs(len(word) - len(group)) <= 1), None)
