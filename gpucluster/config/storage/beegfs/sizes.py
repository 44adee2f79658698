"""The memory that BeeGFS uses on a node, in GiB."""

from __future__ import annotations

LEAST_METADATA_GIB, METADATA_PART = 1, 32
"""Without extended attributes, each file has some pages of metadata: about a hundred thousand files per GiB."""


def metadata_gib(storage_gib: int) -> int:
    """Memory for metadata, on the same nodes as the storage target, so that both are lost together."""
    return max(LEAST_METADATA_GIB, storage_gib // METADATA_PART)


def memory_gib(storage_gib: int) -> int:
    """The memory of a node with a storage target of this size."""
    return storage_gib + metadata_gib(storage_gib)
