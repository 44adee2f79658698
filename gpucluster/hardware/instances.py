"""A table of the instance types' hardware, and their network interfaces: instances.csv.

tools/instance_types.py writes it from EC2's DescribeInstanceTypes, in the copy that moto 5.2.5 ships (of 2026; P3,
which AWS is withdrawing, from its page): every x86-64 type with 4 GiB of memory or more, those with GPUs if
software.py has their drivers. Prices are in prices.csv; unsupported.py knows EC2's other types.

Units are those of the API: memory in GiB, rounded down, GPU memory in MiB, NVMe in GB (10^9 bytes). `model` is the GPU
as Slurm's GRES names it, `cards` "network cards x interfaces that each can hold", `threads` is DefaultThreadsPerCore,
`one_thread` says whether an instance can have one thread a core: ValidThreadsPerCore.
"""

import csv
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Literal, NamedTuple

EfaMode = Literal["efa-only", "combined", "off"]

# The device index of an EFA interface beside the primary one on card 0, and of one on a further card. EC2's user guide,
# "Maximize network bandwidth on Amazon EC2 instances with multiple network cards" (2026): card 0 holds the primary
# interface at 0 and efa-only at 1; on a further card efa-only has 0, and 1 is for an ordinary interface. EC2 takes 1
# there too, where the card holds more than one; older guides and ParallelCluster launch so.
BESIDE_PRIMARY = 1
FURTHER_CARD = 0


# EC2's user guide, "Prerequisites for Amazon EC2 instance topology" (November 2026): those types that the table has.
_WITH_TOPOLOGY = r"(?!p5\.4xlarge)(g6e|hpc6id|hpc[678]a|p3dn|p4de?|p5(en?)?|p6-b[23]00)\..*"


class CpuOptions(NamedTuple):
    """EC2's parameter of this name, in its words."""

    core_count: int
    threads_per_core: int


class InstanceType(NamedTuple):
    name: str
    vcpus: int
    memory_gib: int
    gpus: int
    gpu_model: str | None
    """As Slurm's GRES type: v100, a100, h100, a10g …"""
    gpu_memory_mib: int
    """The memory of one GPU."""
    efa_interfaces: int
    cards: tuple[int, ...]
    """For each network card, the number of interfaces that it supports."""
    nvme_gb: int
    """All local NVMe disks together; 0 if there are none. The disks of older types are no NVMe disks."""
    default_threads: int = 2
    """Threads of a core, as EC2 launches it."""
    one_thread: bool = False
    """Whether an instance can have one thread a core."""
    hypervisor: str = "nitro"
    """nitro, xen, or none on bare metal."""
    recovered_by_alarm: bool = True
    """Whether CloudWatch accepts EC2's action `recover` for an instance: AutoRecoverySupported of
    DescribeInstanceTypes."""
    close_together: bool = True
    """Whether EC2 launches it into a placement group of the strategy `cluster`."""
    spot: bool = True
    """Whether EC2 sells it as spot."""

    @property
    def bare_metal(self) -> bool:
        """g4dn.metal, m7i.metal-48xl."""
        return self.name.partition(".")[2].startswith("metal")

    @property
    def vcpus_per_gpu(self) -> int:
        """0 without GPUs."""
        return self.vcpus // self.gpus if self.gpus else 0

    @property
    def boots_within_s(self) -> int:
        """From RunInstances to a node that works. ParallelCluster waits 1,800 s (3.12) for any type. Bare metal took 15
        to 25 minutes (https://mvm-deployment-docs.pages.dev/providers/aws/), before a step of ours has run."""
        return 2700 if self.bare_metal else 1800

    @property
    def cores(self) -> int:
        return self.vcpus // self.default_threads

    def launched_with(self, threads: int | None) -> "InstanceType":
        """The type with so many threads a core; None: as EC2 launches it."""
        if threads is None or threads == self.default_threads:
            return self
        return self._replace(vcpus=self.cores * threads, default_threads=threads)

    @property
    def cpu_options(self) -> CpuOptions | None:
        """None if EC2 launches the type so anyway; it takes both numbers or none."""
        return None if self == INSTANCE_TYPES[self.name] else CpuOptions(self.cores, self.default_threads)

    @property
    def topology(self) -> bool:
        """Whether DescribeInstanceTopology describes instances of this type."""
        return re.fullmatch(_WITH_TOPOLOGY, self.name) is not None

    @property
    def network_cards(self) -> int:
        return len(self.cards)

    @property
    def efa_cards(self) -> range:
        """Cards with EFA. If there are fewer EFA interfaces than cards (p6-b300), card 0 has none."""
        return range(self.network_cards - self.efa_interfaces, self.network_cards) if self.efa_interfaces else range(0)


class NetworkInterface(NamedTuple):
    """One entry of a launch template's NetworkInterfaces, in EC2's words."""

    network_card_index: int
    device_index: int
    interface_type: Literal["interface", "efa", "efa-only"]


def efa_layout(instance_type: InstanceType, mode: EfaMode = "efa-only") -> tuple[NetworkInterface, ...]:
    """Every interface to launch the type with; the first is the primary one, which has the address.

    `efa-only`: an ordinary primary interface, and beside it an efa-only interface on each card that has EFA. Those take
    no IP address: a p5.48xlarge uses one, not 32.
    `combined`: on each card an EFA interface that is an ordinary one as well, as older templates do; one address each.
    `off`: the primary interface alone.
    """
    if mode == "off" or not instance_type.efa_interfaces:
        return (NetworkInterface(0, 0, "interface"),)
    if mode == "combined":
        return _combined(instance_type)
    efa = tuple(
        NetworkInterface(card, FURTHER_CARD if card else BESIDE_PRIMARY, "efa-only")
        for card in instance_type.efa_cards
        if card > 0 or instance_type.cards[card] > 1
    )
    # If card 0 supports only one interface, the primary interface is also the EFA interface.
    only_one = 0 in instance_type.efa_cards and instance_type.cards[0] == 1
    return (NetworkInterface(0, 0, "efa" if only_one else "interface"), *efa)


def _combined(instance_type: InstanceType) -> tuple[NetworkInterface, ...]:
    primary = NetworkInterface(0, 0, "efa" if 0 in instance_type.efa_cards else "interface")
    return (primary, *(NetworkInterface(card, FURTHER_CARD, "efa") for card in instance_type.efa_cards if card > 0))


def find(name: str) -> InstanceType | None:
    return INSTANCE_TYPES.get(name)


def _parse(row: list[str]) -> InstanceType:
    name, vcpus, memory, gpus, model, gpu_mib, efa, cards, nvme, threads, one_thread, hypervisor, *yes = row
    recovers, close_together, spot = (each == "yes" for each in yes)
    groups = [card.partition("x") for card in cards.split()]
    return InstanceType(
        name=name,
        vcpus=int(vcpus),
        memory_gib=int(memory),
        gpus=int(gpus),
        gpu_model=model or None,
        gpu_memory_mib=int(gpu_mib),
        efa_interfaces=int(efa),
        cards=tuple(int(each) for count, _, each in groups for _ in range(int(count))),
        nvme_gb=int(nvme),
        default_threads=int(threads),
        one_thread=one_thread == "yes",
        hypervisor=hypervisor,
        recovered_by_alarm=recovers,
        close_together=close_together,
        spot=spot,
    )


def _read() -> dict[str, InstanceType]:
    with Path(__file__).with_name("instances.csv").open(encoding="utf-8", newline="") as file:
        _, *rows = csv.reader(file)
    return {each.name: each for each in map(_parse, rows)}


INSTANCE_TYPES: Mapping[str, InstanceType] = MappingProxyType(_read())
