"""Where a cluster's data could not come as fast as its GPUs train on images, computed only from the file and tables.

For `plan`: most clusters train on something else, so these are notes, and nothing refuses them.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpucluster.config.storage import FsxLustre
from gpucluster.config.storage.fsx.lustre import GIB_PER_TIB, TIERS_MBPS_PER_TIB, throughput_mbps
from gpucluster.hardware import training_speed
from gpucluster.hardware.training_speed import BYTES_PER_IMAGE, hundreds
from gpucluster.layout import Layout, Partition


def notes(layout: Layout) -> list[str]:
    """What a user who trains on images would change. Empty if nothing is known to limit."""
    found = [*_vcpus(layout), *_storage(layout)]
    return [f"if you train on images: {each}" for each in found]


def _vcpus(layout: Layout) -> Iterator[str]:
    types = dict.fromkeys(partition.types[0] for partition in layout.partitions)
    yield from (training_speed.sentence(each) for each in types if training_speed.decodes_too_slowly(each))


def _storage(layout: Layout) -> Iterator[str]:
    most = max(layout.partitions, key=_trained_per_s)
    need = _trained_per_s(most)
    for storage in layout.config.storage:
        if isinstance(storage, FsxLustre) and (given := throughput_mbps(storage) * 1e6 / BYTES_PER_IMAGE) < need:
            gpus = most.max_nodes * most.gpus_per_node
            yield (
                f"{storage.mount} gives {throughput_mbps(storage) / 1000:.1f} GB/s, {hundreds(given)} images/s of "
                f"ImageNet's size; the {gpus} GPUs of {most.name} train on {hundreds(need)} (ResNet-50): "
                f"{_remedy(storage, most, need)}"
            )


def _trained_per_s(partition: Partition) -> int:
    """Images that all its nodes take; 0 if no figure is known."""
    return (training_speed.trained_per_s(partition.types[0]) or 0) * partition.gpus_per_node * partition.max_nodes


def _remedy(storage: FsxLustre, partition: Partition, need: int) -> str:
    """Nodes read a copy once; all of a larger file system is paid for as long as it exists."""
    needed = need * BYTES_PER_IMAGE / 1e6 / (storage.capacity_gib / GIB_PER_TIB)
    tier = next((each for each in TIERS_MBPS_PER_TIB[storage.deployment] if each >= needed), None)
    larger = f"throughput_mbps_per_tib: {tier}" if tier else "a larger file system"
    copied = "a copy on the nodes' own disks (a channel with mode: copy), or " if partition.types[0].nvme_gb else ""
    return f"use {copied}{larger}"
