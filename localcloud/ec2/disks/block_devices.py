"""Slow work on block devices, outside the API's thread: AWS also attaches asynchronously.

Requests for one volume are executed in order.
"""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Callable

from localcloud.machines.spec import Hypervisor

_last: dict[str, threading.Thread] = {}


def attach(hypervisor: Hypervisor, instance_id: str, volume_id: str, size_gib: int, device: str) -> None:
    _later(volume_id, lambda: hypervisor.attach_volume(instance_id, volume_id, size_gib, device))


def detach(hypervisor: Hypervisor, instance_id: str, volume_id: str) -> None:
    _later(volume_id, lambda: hypervisor.detach_volume(instance_id, volume_id))


def grow(hypervisor: Hypervisor, volume_id: str, size_gib: int) -> None:
    _later(volume_id, lambda: hypervisor.grow_volume(volume_id, size_gib))


def delete(hypervisor: Hypervisor, volume_id: str) -> None:
    _later(volume_id, lambda: hypervisor.delete_volume(volume_id))


def _later(volume_id: str, work: Callable[[], None]) -> None:
    """The caller holds the cloud's lock."""
    before = _last.get(volume_id)

    def run() -> None:
        if before:
            before.join()
        try:
            work()
        except Exception:  # nobody waits for it, so the server's log gets the error
            print(f"volume {volume_id}:", file=sys.stderr)
            traceback.print_exc(file=sys.stderr)

    _last[volume_id] = threading.Thread(target=run, name=f"volume {volume_id}", daemon=True)
    _last[volume_id].start()
