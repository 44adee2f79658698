"""FSx for Lustre's tiers of throughput and steps of capacity."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpucluster.hardware.instances import InstanceType

if TYPE_CHECKING:
    from gpucluster.config.storage.fsx import DataRepository, FsxLustre

VERSION = "2.15"
"""The newest version. Directories can be linked to S3 from 2.12 on."""

LOG_LEVEL = "WARN_ERROR"
"""The log of errors between Lustre and S3. FSx logs nothing else."""


def deployment_type(storage: FsxLustre) -> str:
    return storage.deployment.upper().replace("-", "_")


def persistent(storage: FsxLustre) -> bool:
    return storage.deployment.startswith("persistent")


def linked_path(repository: DataRepository) -> str:
    return repository.path.rstrip("/") or "/"


TIERS_MBPS_PER_TIB = {
    "persistent-1": (50, 100, 200),
    "persistent-2": (125, 250, 500, 1000),
    "scratch-1": (),
    "scratch-2": (),
}
"""Tiers for SSD, the cheapest first. Scratch file systems have no tiers."""

EFA_STEP_GIB = {125: 38400, 250: 19200, 500: 9600, 1000: 4800}
"""By tier: with EFA, capacity comes in multiples of this (FSx user guide, storage capacity of EFA-enabled systems)."""


def throughput_mbps_per_tib(storage: FsxLustre) -> int | None:
    """The requested tier, or else the cheapest one that the capacity allows; None for scratch, which has no tiers."""
    tiers = TIERS_MBPS_PER_TIB[storage.deployment]
    if storage.throughput_mbps_per_tib is not None or not tiers:
        return storage.throughput_mbps_per_tib
    if storage.efa:
        fitting = (tier for tier in tiers if storage.capacity_gib % EFA_STEP_GIB.get(tier, 1) == 0)
        return next(fitting, tiers[0])
    return tiers[0]


SCRATCH_MBPS_PER_TIB = 200
"""https://docs.aws.amazon.com/fsx/latest/LustreGuide/ssd-storage.html: SCRATCH_1 and SCRATCH_2."""
GIB_PER_TIB = 1024


def throughput_mbps(storage: FsxLustre) -> float:
    """What its disks give all nodes together, in MB/s: its servers' memory and credits give more, for a time."""
    return storage.capacity_gib / GIB_PER_TIB * (throughput_mbps_per_tib(storage) or SCRATCH_MBPS_PER_TIB)


NITRO_3 = ("p3dn", "p4d", "p4de", "g4dn", "g5", "c5n")
"""Families with EFA that are older than Nitro 4, which Lustre's clients need for it (FSx user guide, configuring EFA
clients; EC2 instance types guide, Nitro System)."""


def over_efa(type_: InstanceType) -> bool:
    """Whether this type reaches an EFA-enabled file system over EFA; other types use TCP."""
    return type_.efa_interfaces > 0 and type_.name.partition(".")[0] not in NITRO_3
