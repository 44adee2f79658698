"""Rules about placement groups."""

from __future__ import annotations

from gpucluster.config.document import Finding, Path
from gpucluster.config.models import ClusterConfig, ParameterServers, Partition
from gpucluster.config.validators import Findings, Validators
from gpucluster.meant import near

validator = Validators("Placement groups")

OTHER_STRATEGIES = ("spread", "partition", "precision-time")
STRATEGIES = "AWS::EC2::PlacementGroup Strategy: cluster, partition, spread or precision-time"


@validator("placement-group-not-a-strategy", STRATEGIES)
def placement_group_not_a_strategy(partition: Partition, path: Path, config: ClusterConfig) -> Findings:
    """A placement group other than cluster and none is a group's name, not another strategy of EC2."""
    if partition.placement_group in OTHER_STRATEGIES:
        yield Finding(
            (*path, "placement_group"),
            f"{partition.placement_group!r} is a strategy that keeps nodes apart, and would be taken for a name",
            "write cluster, none or the name of a group that exists",
        )


@validator(
    "placement-group-not-misspelt",
    "error InvalidPlacementGroup.Unknown of EC2 RunInstances: at the first job, not at the deployment",
)
def placement_group_not_misspelt(partition: Partition, path: Path, config: ClusterConfig) -> Findings:
    """A group's name is not nearly the word cluster or none."""
    meant = _nearly(partition.placement_group, ("cluster", "none"))
    if meant:
        yield Finding(
            (*path, "placement_group"),
            f"{partition.placement_group!r} would be taken for the name of a group that exists",
            f"did you mean {meant!r}?",
        )


def _nearly(group: str, words: tuple[str, ...]) -> str | None:
    """The word that was meant. `cluster-1` and `my-cluster` are names; a word is as long as it, and all letters."""
    if group in words or not group.isalpha():
        return None
    return next((word for word in near(group, words) if abs(len(word) - len(group)) <= 1), None)


@validator(
    "servers-group-not-misspelt",
    "error InvalidPlacementGroup.Unknown of EC2 RunInstances: at the first job, not at the deployment",
)
def servers_group_not_misspelt(servers: ParameterServers, path: Path, config: ClusterConfig) -> Findings:
    """The name of the parameter servers' group is not nearly the word shared or none."""
    meant = _nearly(servers.placement_group, ("shared", "none"))
    if meant:
        yield Finding(
            (*path, "placement_group"),
            f"{servers.placement_group!r} would be taken for the name of a group that exists",
            f"did you mean {meant!r}?",
        )


@validator("servers-group-not-a-strategy", STRATEGIES)
def servers_group_not_a_strategy(servers: ParameterServers, path: Path, config: ClusterConfig) -> Findings:
    """The parameter servers' placement group is shared, none or a group's name, not a strategy of EC2."""
    if servers.placement_group in (*OTHER_STRATEGIES, "cluster"):
        yield Finding(
            (*path, "placement_group"),
            f"{servers.placement_group!r} is a strategy, and would be taken for a group's name",
            "write shared to be close to the GPU nodes, or none",
        )
