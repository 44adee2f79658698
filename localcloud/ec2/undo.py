"""A launch that fails leaves nothing behind: moto puts an instance into its backend before it is complete."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from moto.ec2.models import EC2Backend


@contextmanager
def what_fails(backend: EC2Backend) -> Iterator[None]:
    """If the block fails, removes the reservations, interfaces, volumes, addresses, tags and profiles that it made."""
    stores: tuple[dict[str, Any], ...] = (
        backend.reservations,
        backend.enis,
        backend.volumes,
        backend.tags,
        backend.iam_instance_profile_associations,
    )
    before = [set(store) for store in stores]
    subnets = [subnet for zone in backend.subnets.values() for subnet in zone.values()]
    taken = [(subnet, set(subnet._subnet_ips), set(subnet._unused_ips)) for subnet in subnets]
    try:
        yield
    except BaseException:
        for store, known in zip(stores, before, strict=True):
            for key in [key for key in store if key not in known]:
                del store[key]
        for subnet, addresses, unused in taken:
            for address in [each for each in subnet._subnet_ips if each not in addresses]:
                del subnet._subnet_ips[address]
            subnet._unused_ips |= unused
        raise
