"""A table of the instance types' hardware, and their network interfaces.

Sources. GPUs, memory, EFA interfaces, network cards and NVMe: EC2's DescribeInstanceTypes, read through the catalogue
that moto 5.2.5 ships (a test compares them). P3, which that catalogue no longer has: its cards from Karpenter's list of
VPC limits, the rest from AWS's P3 page. AWS is withdrawing P3: ask DescribeInstanceTypeOfferings before relying on it.
Prices are in prices.csv. unsupported.py knows EC2's other types.

To add a type, add a line here and one in prices.csv. Units are those of the API: memory in GiB, rounded down, GPU
memory in MiB, NVMe in GB (10^9 bytes).
`cards` is "network cards x interfaces that each can hold". `model` is the GPU as Slurm's GRES names it.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple

_TABLE = """
type              vcpus  memory_gib  gpus  model  gpu_mib  efa  cards  nvme_gb
p3.2xlarge            8          61     1  v100     16384    0    1x4        0
p3.8xlarge           32         244     4  v100     16384    0    1x8        0
p3.16xlarge          64         488     8  v100     16384    0    1x8        0
p3dn.24xlarge        96         768     8  v100     32768    1   1x15     1800
p4d.24xlarge         96        1152     8  a100     40960    4   4x15     8000
p4de.24xlarge        96        1152     8  a100     81920    4   4x15     8000
p5.4xlarge           16         256     1  h100     81920    1    1x4     3800
p5.48xlarge         192        2048     8  h100     81920   32   32x2    30400
p5e.48xlarge        192        2048     8  h200    144384   32   32x2    30400
p5en.48xlarge       192        2048     8  h200    144384   16   16x4    30400
p6-b200.48xlarge    192        2048     8  b200    183359    8    8x4    30400
p6-b300.48xlarge    192        4096     8  b300    275040   16   17x4    30400
g4dn.xlarge           4          16     1  t4       16384    0    1x3      125
g4dn.2xlarge          8          32     1  t4       16384    0    1x3      225
g4dn.4xlarge         16          64     1  t4       16384    0    1x3      225
g4dn.8xlarge         32         128     1  t4       16384    1    1x4      900
g4dn.12xlarge        48         192     4  t4       16384    1    1x8      900
g4dn.16xlarge        64         256     1  t4       16384    1    1x4      900
g4dn.metal           96         384     8  t4       16384    1   1x15     1800
g5.xlarge             4          16     1  a10g     22888    0    1x4      250
g5.2xlarge            8          32     1  a10g     22888    0    1x4      450
g5.4xlarge           16          64     1  a10g     22888    0    1x8      600
g5.8xlarge           32         128     1  a10g     22888    1    1x8      900
g5.12xlarge          48         192     4  a10g     22888    1   1x15     3800
g5.16xlarge          64         256     1  a10g     22888    1    1x8     1900
g5.24xlarge          96         384     4  a10g     22888    1   1x15     3800
g5.48xlarge         192         768     8  a10g     22888    1    1x7     7600
g6.xlarge             4          16     1  l4       22888    0    1x4      250
g6.2xlarge            8          32     1  l4       22888    0    1x4      450
g6.4xlarge           16          64     1  l4       22888    0    1x8      600
g6.8xlarge           32         128     1  l4       22888    1    1x8      900
g6.12xlarge          48         192     4  l4       22888    1    1x8     3760
g6.16xlarge          64         256     1  l4       22888    1   1x15     1880
g6.24xlarge          96         384     4  l4       22888    1   1x15     3760
g6.48xlarge         192         768     8  l4       22888    1   1x15     7520
gr6.4xlarge          16         128     1  l4       22888    0    1x8      600
gr6.8xlarge          32         256     1  l4       22888    1    1x8      900
g6e.xlarge            4          32     1  l40s     45776    0    1x4      250
g6e.2xlarge           8          64     1  l40s     45776    0    1x4      450
g6e.4xlarge          16         128     1  l40s     45776    0    1x8      600
g6e.8xlarge          32         256     1  l40s     45776    1    1x8      900
g6e.12xlarge         48         384     4  l40s     45776    1   1x10     3800
g6e.16xlarge         64         512     1  l40s     45776    1   1x15     1900
g6e.24xlarge         96         768     4  l40s     45776    2   2x10     3800
g6e.48xlarge        192        1536     8  l40s     45776    4   4x10     7600
m4.large              2           8     0  -            0    0    1x2        0
m4.xlarge             4          16     0  -            0    0    1x4        0
m4.2xlarge            8          32     0  -            0    0    1x4        0
m4.4xlarge           16          64     0  -            0    0    1x8        0
m4.10xlarge          40         160     0  -            0    0    1x8        0
m4.16xlarge          64         256     0  -            0    0    1x8        0
m5.large              2           8     0  -            0    0    1x3        0
m5.xlarge             4          16     0  -            0    0    1x4        0
m5.2xlarge            8          32     0  -            0    0    1x4        0
m5.4xlarge           16          64     0  -            0    0    1x8        0
m5.8xlarge           32         128     0  -            0    0    1x8        0
m5.12xlarge          48         192     0  -            0    0    1x8        0
m5.16xlarge          64         256     0  -            0    0   1x15        0
m5.24xlarge          96         384     0  -            0    0   1x15        0
m5.metal             96         384     0  -            0    0   1x15        0
m6i.large             2           8     0  -            0    0    1x3        0
m6i.xlarge            4          16     0  -            0    0    1x4        0
m6i.2xlarge           8          32     0  -            0    0    1x4        0
m6i.4xlarge          16          64     0  -            0    0    1x8        0
m6i.8xlarge          32         128     0  -            0    0    1x8        0
m6i.12xlarge         48         192     0  -            0    0    1x8        0
m6i.16xlarge         64         256     0  -            0    0   1x15        0
m6i.24xlarge         96         384     0  -            0    0   1x15        0
m6i.32xlarge        128         512     0  -            0    1   1x15        0
m6i.metal           128         512     0  -            0    1   1x15        0
m7i.large             2           8     0  -            0    0    1x3        0
m7i.xlarge            4          16     0  -            0    0    1x4        0
m7i.2xlarge           8          32     0  -            0    0    1x4        0
m7i.4xlarge          16          64     0  -            0    0    1x8        0
m7i.8xlarge          32         128     0  -            0    0    1x8        0
m7i.12xlarge         48         192     0  -            0    0    1x8        0
m7i.16xlarge         64         256     0  -            0    0   1x15        0
m7i.24xlarge         96         384     0  -            0    0   1x15        0
m7i.metal-24xl       96         384     0  -            0    0   1x15        0
m7i.48xlarge        192         768     0  -            0    1   1x15        0
m7i.metal-48xl      192         768     0  -            0    1   1x15        0
r5.large              2          16     0  -            0    0    1x3        0
r5.xlarge             4          32     0  -            0    0    1x4        0
r5.2xlarge            8          64     0  -            0    0    1x4        0
r5.4xlarge           16         128     0  -            0    0    1x8        0
r5.8xlarge           32         256     0  -            0    0    1x8        0
r5.12xlarge          48         384     0  -            0    0    1x8        0
r5.16xlarge          64         512     0  -            0    0   1x15        0
r5.24xlarge          96         768     0  -            0    0   1x15        0
r5.metal             96         768     0  -            0    0   1x15        0
r6i.large             2          16     0  -            0    0    1x3        0
r6i.xlarge            4          32     0  -            0    0    1x4        0
r6i.2xlarge           8          64     0  -            0    0    1x4        0
r6i.4xlarge          16         128     0  -            0    0    1x8        0
r6i.8xlarge          32         256     0  -            0    0    1x8        0
r6i.12xlarge         48         384     0  -            0    0    1x8        0
r6i.16xlarge         64         512     0  -            0    0   1x15        0
r6i.24xlarge         96         768     0  -            0    0   1x15        0
r6i.32xlarge        128        1024     0  -            0    1   1x15        0
r6i.metal           128        1024     0  -            0    1   1x15        0
c5.large              2           4     0  -            0    0    1x3        0
c5.xlarge             4           8     0  -            0    0    1x4        0
c5.2xlarge            8          16     0  -            0    0    1x4        0
c5.4xlarge           16          32     0  -            0    0    1x8        0
c5.9xlarge           36          72     0  -            0    0    1x8        0
c5.12xlarge          48          96     0  -            0    0    1x8        0
c5.18xlarge          72         144     0  -            0    0   1x15        0
c5.24xlarge          96         192     0  -            0    0   1x15        0
c5.metal             96         192     0  -            0    0   1x15        0
c5a.large             2           4     0  -            0    0    1x3        0
c5a.xlarge            4           8     0  -            0    0    1x4        0
c5a.2xlarge           8          16     0  -            0    0    1x4        0
c5a.4xlarge          16          32     0  -            0    0    1x8        0
c5a.8xlarge          32          64     0  -            0    0    1x8        0
c5a.12xlarge         48          96     0  -            0    0    1x8        0
c5a.16xlarge         64         128     0  -            0    0   1x15        0
c5a.24xlarge         96         192     0  -            0    0   1x15        0
c5n.large             2           5     0  -            0    0    1x3        0
c5n.xlarge            4          10     0  -            0    0    1x4        0
c5n.2xlarge           8          21     0  -            0    0    1x4        0
c5n.4xlarge          16          42     0  -            0    0    1x8        0
c5n.9xlarge          36          96     0  -            0    1    1x8        0
c5n.18xlarge         72         192     0  -            0    1   1x15        0
c5n.metal            72         192     0  -            0    1   1x15        0
c6i.large             2           4     0  -            0    0    1x3        0
c6i.xlarge            4           8     0  -            0    0    1x4        0
c6i.2xlarge           8          16     0  -            0    0    1x4        0
c6i.4xlarge          16          32     0  -            0    0    1x8        0
c6i.8xlarge          32          64     0  -            0    0    1x8        0
c6i.12xlarge         48          96     0  -            0    0    1x8        0
c6i.16xlarge         64         128     0  -            0    0   1x15        0
c6i.24xlarge         96         192     0  -            0    0   1x15        0
c6i.32xlarge        128         256     0  -            0    1   1x15        0
c6i.metal           128         256     0  -            0    1   1x15        0
c6a.large             2           4     0  -            0    0    1x3        0
c6a.xlarge            4           8     0  -            0    0    1x4        0
c6a.2xlarge           8          16     0  -            0    0    1x4        0
c6a.4xlarge          16          32     0  -            0    0    1x8        0
c6a.8xlarge          32          64     0  -            0    0    1x8        0
c6a.12xlarge         48          96     0  -            0    0    1x8        0
c6a.16xlarge         64         128     0  -            0    0   1x15        0
c6a.24xlarge         96         192     0  -            0    0   1x15        0
c6a.32xlarge        128         256     0  -            0    0   1x15        0
c6a.48xlarge        192         384     0  -            0    1   1x15        0
c6a.metal           192         384     0  -            0    1   1x15        0
c7i.large             2           4     0  -            0    0    1x3        0
c7i.xlarge            4           8     0  -            0    0    1x4        0
c7i.2xlarge           8          16     0  -            0    0    1x4        0
c7i.4xlarge          16          32     0  -            0    0    1x8        0
c7i.8xlarge          32          64     0  -            0    0    1x8        0
c7i.12xlarge         48          96     0  -            0    0    1x8        0
c7i.16xlarge         64         128     0  -            0    0   1x15        0
c7i.24xlarge         96         192     0  -            0    0   1x15        0
c7i.metal-24xl       96         192     0  -            0    0   1x15        0
c7i.48xlarge        192         384     0  -            0    1   1x15        0
c7i.metal-48xl      192         384     0  -            0    1   1x15        0
m6a.large             2           8     0  -            0    0    1x3        0
m6a.xlarge            4          16     0  -            0    0    1x4        0
m6a.2xlarge           8          32     0  -            0    0    1x4        0
m6a.4xlarge          16          64     0  -            0    0    1x8        0
m6a.8xlarge          32         128     0  -            0    0    1x8        0
m6a.12xlarge         48         192     0  -            0    0    1x8        0
m6a.16xlarge         64         256     0  -            0    0   1x15        0
m6a.24xlarge         96         384     0  -            0    0   1x15        0
m6a.32xlarge        128         512     0  -            0    0   1x15        0
m6a.48xlarge        192         768     0  -            0    1   1x15        0
m6a.metal           192         768     0  -            0    1   1x15        0
t3.medium             2           4     0  -            0    0    1x3        0
t3.large              2           8     0  -            0    0    1x3        0
t3.xlarge             4          16     0  -            0    0    1x4        0
t3.2xlarge            8          32     0  -            0    0    1x4        0
t3a.medium            2           4     0  -            0    0    1x3        0
t3a.large             2           8     0  -            0    0    1x3        0
t3a.xlarge            4          16     0  -            0    0    1x4        0
t3a.2xlarge           8          32     0  -            0    0    1x4        0
"""

THREADS_PER_CORE = 2
"""EC2's DefaultThreadsPerCore; a test compares every type. m7a, c7a, t2 and the hpc types have one: a type like them
needs a column here, and a check that no partition mixes it with the others, because Slurm's node line has one value."""

EfaMode = Literal["efa-only", "combined", "off"]

# The device index of an EFA interface beside the primary one on card 0, and of one on a further card. EC2's user guide,
# "Maximize network bandwidth on Amazon EC2 instances with multiple network cards" (2026): card 0 holds the primary
# interface at 0 and efa-only at 1; on a further card efa-only has 0, and 1 is for an ordinary interface. EC2 takes 1
# there too, where the card holds more than one; older guides and ParallelCluster launch so.
BESIDE_PRIMARY = 1
FURTHER_CARD = 0


# EC2's user guide, "Prerequisites for Amazon EC2 instance topology" (November 2026): those types that the table has.
_WITH_TOPOLOGY = r"(?!p5\.4xlarge)(g6e|p3dn|p4de?|p5(en?)?|p6-b[23]00)\..*"


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
    """All local disks together; 0 if there are none."""

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
    def recovered_by_alarm(self) -> bool:
        """Whether CloudWatch accepts EC2's action `recover` for an instance of this type: AutoRecoverySupported of
        DescribeInstanceTypes. Of the types in the table, those with GPUs lack it."""
        return self.gpus == 0

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


def _parse(line: str) -> InstanceType:
    name, vcpus, memory, gpus, model, gpu_mib, efa, cards, nvme = line.split()
    count, _, each = cards.partition("x")
    return InstanceType(
        name=name,
        vcpus=int(vcpus),
        memory_gib=int(memory),
        gpus=int(gpus),
        gpu_model=None if model == "-" else model,
        gpu_memory_mib=int(gpu_mib),
        efa_interfaces=int(efa),
        cards=(int(each),) * int(count),
        nvme_gb=int(nvme),
    )


_HEADER, *_ROWS = _TABLE.strip().splitlines()

INSTANCE_TYPES: Mapping[str, InstanceType] = MappingProxyType({row.name: row for row in map(_parse, _ROWS)})
