"""The cluster with all defaults resolved: `expand(config)` decides everything about each partition and mount once.

Render, stacks, jobs, plan and updates take a Layout, and do not read from the file what it has.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple

from gpucluster import account
from gpucluster.config import PARAMETER_SERVERS, ClusterConfig, nodes
from gpucluster.config.scripts import Script
from gpucluster.config.storage import BeegfsRam, Mount
from gpucluster.config.storage.beegfs.sizes import memory_gib
from gpucluster.errors import UsageError
from gpucluster.hardware.instances import INSTANCE_TYPES, InstanceType

USABLE_MEMORY = 0.95
"""The part of an instance type's memory that Slurm is told: kernel and firmware use the rest, and Slurm refuses a node
with less than its configuration says. ParallelCluster's SchedulableMemory has the same default."""

Real = Callable[[str], str]
"""From a path that begins with `account.home()` to its place on the cluster."""


def as_it_is(path: str) -> str:
    """On clusters that we have built."""
    return path


class Site(NamedTuple):
    """A cluster that we have not built, as one of its users has it."""

    folder: str
    """On shared storage: what lies in `account.home()` elsewhere lies here."""
    pyxis: bool

    def real(self, path: str) -> str:
        """The place there of a path that begins with `account.home()`. Not for a user's own path: that may begin so,
        too, and means what it says."""
        return self.folder + path.removeprefix(account.home())


class Group(NamedTuple):
    """A placement group."""

    name: str
    """An existing group, or the partition for which the stack creates one."""
    ours: bool


class Partition(NamedTuple):
    """Nodes of one kind."""

    name: str
    types: tuple[InstanceType, ...]
    """In order of preference; with the CPUs that they have with `threads_per_core`."""
    image: str
    root: nodes.RootVolume
    min_nodes: int
    max_nodes: int
    purchase: Literal["on-demand", "spot", "reservation", "capacity-block"]
    reservation_id: str | None
    group: Group | None
    efa: bool
    """Whether its nodes get the EFA interfaces of their types."""
    scratch: bool
    idle_s: int
    """A node without a job for this long is terminated."""
    ram: BeegfsRam | None
    """The file system in its nodes' memory."""
    max_usd_per_hour: float | None = None
    scripts: tuple[Script, ...] = ()
    security_groups: tuple[str, ...] = ()
    """Those of the file, beside ours."""
    partition_options: Mapping[str, str] = MappingProxyType({})
    node_options: Mapping[str, str] = MappingProxyType({})

    @property
    def gpus_per_node(self) -> int:
        """The same for all of its instance types."""
        return self.types[0].gpus

    @property
    def topology(self) -> bool:
        """Whether EC2 tells where in the network its nodes are."""
        return any(each.topology for each in self.types)

    @property
    def ram_gib(self) -> int:
        """Memory of each node that jobs cannot use, whether the file system belongs to the cluster or to a job."""
        return memory_gib(self.ram.gib_per_node) if self.ram else 0

    @property
    def memory_mib(self) -> int:
        """The memory for jobs: a file system may use a part of the nodes' memory."""
        least_gib = min(each.memory_gib for each in self.types)
        return max(1, int((least_gib * USABLE_MEMORY - self.ram_gib) * 1024))


class Layout(NamedTuple):
    config: ClusterConfig
    partitions: tuple[Partition, ...]
    """The parameter servers' partition is the last one, since Slurm's default partition is the first."""
    mounts: tuple[Mount, ...]
    """/home is always one of them."""
    site: Site | None = None
    """None: we have built it."""

    @property
    def name(self) -> str:
        return self.config.name

    @property
    def head_image(self) -> str:
        return self.config.head_node.image or self.config.software.image

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(each.name for each in self.partitions)

    @property
    def sizes(self) -> dict[str, int]:
        """Partition -> its maximum number of nodes."""
        return {each.name: each.max_nodes for each in self.partitions}

    @property
    def switches(self) -> bool:
        """Whether Slurm gets a tree of switches: nodes with a known place stay on. The same rule is in
        gpucluster_node/power/switches.py."""
        return any(each.topology and each.min_nodes >= 2 for each in self.partitions)

    @property
    def servers(self) -> Partition | None:
        """The parameter servers' partition."""
        return next((each for each in self.partitions if each.name == PARAMETER_SERVERS), None)

    @property
    def machine_types(self) -> tuple[InstanceType, ...]:
        """The instance types of all compute nodes, each once."""
        return tuple(dict.fromkeys(kind for each in self.partitions for kind in each.types))

    def real(self, path: str) -> str:
        """Where on this cluster that path of `account.home()` is."""
        return self.site.real(path) if self.site else path

    def partition(self, name: str) -> Partition:
        """Raises UsageError."""
        for each in self.partitions:
            if each.name == name:
                return each
        known = ", ".join(self.names)
        raise UsageError(f"the cluster {self.config.name} has no partition {name!r}", f"its partitions: {known}")

    def partition_of(self, node: str) -> Partition:
        """Raises UsageError."""
        name, _, number = node.rpartition("-")
        if name not in self.names or not number.isdigit() or not 1 <= int(number) <= self.sizes[name]:
            nodes = ", ".join(f"{each}-1 to {each}-{size}" for each, size in self.sizes.items())
            raise UsageError(f"no node {node!r} in the cluster {self.config.name}", f"its nodes: {nodes}")
        return self.partition(name)


def expand(config: ClusterConfig) -> Layout:
    groups = _groups(config)
    partitions = tuple(_partition(each, config, groups[each.name]) for each in config.every_partition)
    listed = any(each.mount == config.home.mount for each in config.storage)
    return Layout(config, partitions, config.storage if listed else (config.home, *config.storage))


def _partition(each: nodes.Partition, config: ClusterConfig, group: Group | None) -> Partition:
    return Partition(
        name=each.name,
        types=tuple(INSTANCE_TYPES[name].launched_with(each.threads_per_core) for name in each.instance_types),
        image=each.image or config.software.image,
        root=each.root_volume,
        min_nodes=each.min_nodes,
        max_nodes=each.max_nodes,
        purchase=each.purchase,
        reservation_id=each.reservation_id,
        group=group,
        efa=each.efa != "off",
        scratch=each.scratch != "off",
        idle_s=int(each.idle_minutes * 60),
        max_usd_per_hour=each.max_usd_per_hour,
        scripts=each.scripts,
        security_groups=each.security_groups,
        partition_options=each.partition_options,
        node_options=each.node_options,
        ram=config.ram if config.ram and config.ram.partition == each.name else None,
    )


def _groups(config: ClusterConfig) -> dict[str, Group | None]:
    """Groups by partition. Parameter servers share the first one that the stack creates, to be close to its nodes."""
    found: dict[str, Group | None] = {}
    for each in config.every_partition:
        shares = each.name == PARAMETER_SERVERS and each.placement_group == "shared"
        made = (group for group in found.values() if group and group.ours)
        found[each.name] = next(made, None) if shares else _group(each)
    return found


def _group(each: nodes.Partition) -> Group | None:
    """The instances of a reservation are launched into the group of the reservation; a Capacity Block has none."""
    bought = each.purchase in ("on-demand", "spot")
    if each.placement_group == "none" or not (bought or each.purchase == "reservation"):
        return None
    if each.placement_group == "cluster":
        return Group(each.name, ours=True) if bought else None
    return Group(each.placement_group, ours=False)
