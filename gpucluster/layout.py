"""The cluster with everything decided: `expand(config)` says of each partition and mount what the rest only uses.

Render, stacks, jobs, plan and updates take a Layout, and ask the file for nothing that stands here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gpucluster.config import PARAMETER_SERVERS, ClusterConfig, models
from gpucluster.config.storage import BeegfsRam, Mount
from gpucluster.config.storage.beegfs.sizes import memory_gib
from gpucluster.errors import UsageError
from gpucluster.hardware.instances import INSTANCE_TYPES, InstanceType


@dataclass(frozen=True)
class Group:
    """A placement group."""

    name: str
    """Of a group that is there already; or the partition for which the stack makes one."""
    ours: bool


@dataclass(frozen=True)
class Partition:
    """Nodes of one kind."""

    name: str
    types: tuple[InstanceType, ...]
    """In order of preference."""
    image: str
    min_nodes: int
    max_nodes: int
    purchase: Literal["on-demand", "spot", "reservation", "capacity-block"]
    reservation_id: str | None
    group: Group | None
    efa: bool
    """Whether its nodes have the EFA interfaces of their types."""
    scratch: bool
    idle_s: int
    """After so long without a job a node is ended."""
    ram: BeegfsRam | None
    """The file system in its nodes' memory."""

    @property
    def gpus_per_node(self) -> int:
        """The same for every type that it may get."""
        return self.types[0].gpus

    @property
    def ram_gib(self) -> int:
        """Of each node's memory: jobs cannot have it, be the file system the cluster's or their own."""
        return memory_gib(self.ram.gib_per_node) if self.ram else 0


@dataclass(frozen=True)
class Layout:
    config: ClusterConfig
    partitions: tuple[Partition, ...]
    """The parameter servers' is the last: Slurm's default partition is the first."""
    mounts: tuple[Mount, ...]
    """/home among them, be it in the file or not."""

    @property
    def head_image(self) -> str:
        return self.config.head_node.image or self.config.software.image

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(each.name for each in self.partitions)

    @property
    def sizes(self) -> dict[str, int]:
        """Partition -> how many nodes it has at most."""
        return {each.name: each.max_nodes for each in self.partitions}

    @property
    def servers(self) -> Partition | None:
        """The parameter servers' partition."""
        return next((each for each in self.partitions if each.name == PARAMETER_SERVERS), None)

    @property
    def machine_types(self) -> tuple[InstanceType, ...]:
        """Of all compute nodes that may ever be, each once."""
        return tuple(dict.fromkeys(kind for each in self.partitions for kind in each.types))

    def partition(self, name: str) -> Partition:
        """Raises UsageError."""
        for each in self.partitions:
            if each.name == name:
                return each
        known = ", ".join(self.names)
        raise UsageError(f"no partition {name!r} in the cluster {self.config.name}", f"its partitions: {known}")


def expand(config: ClusterConfig) -> Layout:
    groups = _groups(config)
    partitions = tuple(_partition(each, config, groups[each.name]) for each in config.every_partition)
    listed = any(each.mount == config.home.mount for each in config.storage)
    return Layout(config, partitions, config.storage if listed else (config.home, *config.storage))


def _partition(each: models.Partition, config: ClusterConfig, group: Group | None) -> Partition:
    return Partition(
        name=each.name,
        types=tuple(INSTANCE_TYPES[name] for name in each.instance_types),
        image=each.image or config.software.image,
        min_nodes=each.min_nodes,
        max_nodes=each.max_nodes,
        purchase=each.purchase,
        reservation_id=each.reservation_id,
        group=group,
        efa=each.efa != "off",
        scratch=each.scratch != "off",
        idle_s=int(each.idle_minutes * 60),
        ram=config.ram if config.ram and config.ram.partition == each.name else None,
    )


def _groups(config: ClusterConfig) -> dict[str, Group | None]:
    """By partition. The parameter servers share the first that the stack makes: its nodes are close together."""
    found: dict[str, Group | None] = {}
    for each in config.every_partition:
        shares = each.name == PARAMETER_SERVERS and each.placement_group == "shared"
        made = (group for group in found.values() if group and group.ours)
        found[each.name] = next(made, None) if shares else _group(each)
    return found


def _group(each: models.Partition) -> Group | None:
    """A reservation's instances are launched into the group that it was made in; a Capacity Block is in none."""
    bought = each.purchase in ("on-demand", "spot")
    if each.placement_group == "none" or not (bought or each.purchase == "reservation"):
        return None
    if each.placement_group == "cluster":
        return Group(each.name, ours=True) if bought else None
    return Group(each.placement_group, ours=False)
