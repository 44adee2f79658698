"""Rules about placement groups."""

from __future__ import annotations

from gpucluster.config.document import Finding, Path
from gpucluster.config.models import ClusterConfig, ParameterServers, Partition
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
    """A placement group's name is not a misspelt cluster, none or (for parameter servers) shared."""
    meant = _nearly(nodes.placement_group, (nodes.own_group, "none"))
    if meant:
        yield Finding(
            (*path, "placement_group"),
            f"{nodes.placement_group!r} would be taken for the name of a group that exists",
            f"did you mean {meant!r}?",
        )


def _nearly(group: str, words: tuple[str, ...]) -> str | None:
    """The value that was probably meant. `cluster-1` and `my-cluster` are names; a misspelt value has only letters and
    about the same length."""
    if group in words or not group.isalpha():
        return None
    return next((word for word in near(group, words) if abs(len(word) - len(group)) <= 1), None)
