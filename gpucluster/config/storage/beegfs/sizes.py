"""How much memory BeeGFS takes of a node, in GiB."""

from __future__ import annotations

LEAST_METADATA_GIB, METADATA_PART = 1, 32
"""Without extended attributes each file is some pages of metadata: a GiB holds about a hundred thousand."""


def metadata_gib(storage_gib: int) -> int:
    """Beside the storage target, on the same nodes: memory too, so that what is lost is lost together."""
    return max(LEAST_METADATA_GIB, storage_gib // METADATA_PART)


def memory_gib(storage_gib: int) -> int:
    """Of a node that serves a target of that size."""
    return storage_gib + metadata_gib(storage_gib)
