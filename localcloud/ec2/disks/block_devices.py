"""Slow work on block devices, outside the API's thread: AWS also attaches asynchronously.

Requests for one volume or snapshot are executed in order.
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


def snapshot(hypervisor: Hypervisor, volume_id: str, snapshot_id: str, done: Callable[[bool], None]) -> None:
    """Calls `done` with whether it was made."""

    def work() -> None:
        made = False
        try:
            hypervisor.snapshot_volume(volume_id, snapshot_id)
            made = True
        finally:
            done(made)

    _later(volume_id, work, snapshot_id)


def restore(hypervisor: Hypervisor, snapshot_id: str, volume_id: str, size_gib: int) -> None:
    _later(volume_id, lambda: hypervisor.restore_volume(snapshot_id, volume_id, size_gib), snapshot_id)


def delete_snapshot(hypervisor: Hypervisor, snapshot_id: str) -> None:
    _later(snapshot_id, lambda: hypervisor.delete_snapshot(snapshot_id))


def _later(volume_id: str, work: Callable[[], None], *others: str) -> None:
    """The caller holds the cloud's lock. others: further volumes or snapshots that the work uses."""
    used = (volume_id, *others)
    before = [_last[each] for each in used if each in _last]

    def run() -> None:
        for each in before:
            each.join()
        try:
            work()
        except Exception:  # nobody waits for it, so the server's log gets the error
            print(f"volume {volume_id}:", file=sys.stderr)
            traceback.print_exc(file=sys.stderr)

    thread = threading.Thread(target=run, name=f"volume {volume_id}", daemon=True)
    _last.update(dict.fromkeys(used, thread))
    thread.start()
