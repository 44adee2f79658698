"""Rules about the capacity and throughput of FSx for Lustre: its API's steps and tiers."""

from __future__ import annotations

from gpucluster.config.document import Finding, Path
from gpucluster.config.models import ClusterConfig
from gpucluster.config.storage import FsxLustre
from gpucluster.config.storage.fsx.lustre import TIERS_MBPS_PER_TIB
from gpucluster.config.validators import Findings, Validators

FSX = "FSx for Lustre"
validator = Validators(FSX)
FSX_API = "https://docs.aws.amazon.com/fsx/latest/APIReference/API_CreateFileSystemLustreConfiguration.html"
FSX_CAPACITY = "https://docs.aws.amazon.com/fsx/latest/APIReference/API_CreateFileSystem.html: StorageCapacity"

STEP_GIB = {"persistent-1": 2400, "persistent-2": 2400, "scratch-1": 3600, "scratch-2": 2400}
"""Capacities are 1200, 2400, then steps of this."""


@validator("fsx-capacity-step", FSX_CAPACITY)
def fsx_capacity_step(storage: FsxLustre, path: Path, config: ClusterConfig) -> Findings:
    """Capacity is 1200 or 2400 GiB, or a multiple of 2400 (scratch-1: 3600)."""
    step = STEP_GIB[storage.deployment]
    if storage.capacity_gib in (1200, 2400) or (storage.capacity_gib > 2400 and storage.capacity_gib % step == 0):
        return
    above = next(size for size in (1200, 2400, -(-storage.capacity_gib // step) * step) if size >= storage.capacity_gib)
    yield Finding(
        (*path, "capacity_gib"),
        f"must be 1200, 2400 or a multiple of {step} for {storage.deployment}, got {storage.capacity_gib}",
        f"the next size up is {above}",
    )


@validator("fsx-throughput-tier", f"{FSX_API}: PerUnitStorageThroughput")
def fsx_throughput_tier(storage: FsxLustre, path: Path, config: ClusterConfig) -> Findings:
    """Throughput is one of its deployment's tiers: persistent-1 50, 100, 200; persistent-2 125, 250, 500, 1000."""
    got, tiers = storage.throughput_mbps_per_tib, TIERS_MBPS_PER_TIB[storage.deployment]
    if got is None or not tiers or got in tiers:
        return
    *most, last = map(str, tiers)
    yield Finding(
        (*path, "throughput_mbps_per_tib"), f"must be {', '.join(most)} or {last} for {storage.deployment}, got {got}"
    )


@validator("fsx-scratch-has-no-tier", f"{FSX_API}: PerUnitStorageThroughput")
def fsx_scratch_has_no_tier(storage: FsxLustre, path: Path, config: ClusterConfig) -> Findings:
    """throughput_mbps_per_tib is not allowed for a scratch file system."""
    if storage.throughput_mbps_per_tib is not None and not TIERS_MBPS_PER_TIB[storage.deployment]:
        yield Finding(
            (*path, "throughput_mbps_per_tib"),
            f"not allowed for {storage.deployment}",
            "remove it: scratch has one speed",
        )
