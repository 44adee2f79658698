"""Keeps jobs away from this node while DCGM tests its GPUs: DCGM fails on a GPU that a job uses, and slows the job down
(NVIDIA/DCGM#224).

Slurm starts no job on a drained node. It may still power the node down: it ends the drain of a node that has been idle
for SuspendTime (power_save.c: _do_power_work, idle_on_node_suspend), and the test ends with the instance.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpucluster_node import locks, slurm
from gpucluster_node.health import answered

OWN = "doctor: "
"""The reason of a node that this program drained begins with this."""
LOCK = Path("/run/gpucluster-doctor.lock")
SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
_OUT = ("DRAIN", "DOWN", "POWER_DOWN", "POWERING_DOWN")
_BOOTING = ("POWERING_UP", "POWER_UP")


@dataclass
class Place:
    node: str
    hindrance: str = ""
    """Why DCGM cannot run now."""
    reason: str = ""
    """With which this program drained the node; empty if somebody else has taken the node out of service."""
    fault: str = ""
    """If DCGM has proved one: with this reason the node is left to be replaced, and not taken back."""
    is_replaced: bool = False

    def is_ours(self) -> bool:
        """Whether the node is still drained, and by this program. Somebody else may have changed that since."""
        (node,) = slurm.nodes([self.node])
        return bool(self.reason) and _is_drained_for(node, self.reason)


def _is_drained_for(node: slurm.Node, reason: str) -> bool:
    """Slurm keeps a reason after its drain."""
    ends = node.has("DOWN", "POWER_DOWN", "POWERING_DOWN")
    return node.reason == reason and node.has("DRAIN") and not ends


@contextmanager
def taken(node: str) -> Iterator[Place]:
    """Inside, no job starts on the node, if there is no hindrance."""
    with locks.opened(LOCK) as file:
        if not locks.take(file):
            yield Place(node, "another `gpucluster doctor --node` tests it")
            return
        with _drained(node) as place:
            yield place


@contextmanager
def _drained(name: str) -> Iterator[Place]:
    (node,) = slurm.nodes([name])
    if (hindrance := _job_on(name) or _boot_of(node)) or _is_out(node):
        yield Place(name, hindrance)
        return
    place = Place(
        name, reason=f"{OWN}{os.environ.get('SUDO_USER', 'root')} tests its GPUs with gpucluster doctor --node"
    )
    try:
        slurm.update([name], state="drain", reason=place.reason)
        # A job may have got the node since the first look.
        place.hindrance = _job_on(name)
        yield place
    finally:
        handlers = list[Any]()
        try:
            handlers += ignore_signals()
        finally:
            # Also if a signal ends the program just before: its handler ignores the next ones.
            _finish(place, handlers)


def ignore_signals() -> list[Any]:
    """Slurm's commands ignore them too. Returns how this program handled them."""
    return [signal.signal(each, signal.SIG_IGN) for each in SIGNALS]


def _job_on(node: str) -> str:
    return next((f"job {job_id} has the node" for job_id in slurm.jobs_on(node)), "")


def _boot_of(node: slurm.Node) -> str:
    """A drain would requeue the job for which it boots (node_mgr.c: update_node)."""
    return "it is still booting" if node.has(*_BOOTING) else ""


def _is_out(node: slurm.Node) -> bool:
    """A drain of this program's own is left over if the program was killed. Then it is taken over."""
    is_left_over = node.reason.startswith(OWN) and _is_drained_for(node, node.reason)
    return node.has(*_OUT) and not is_left_over


def replace(node: str, why: str) -> None:
    """Slurm starts no other job there, and powers the node down when its last job has ended."""
    slurm.update([node], state="power_down_asap", reason=why)


def _finish(place: Place, handlers: list[Any]) -> None:
    """handlers: of the signals that are ignored now."""
    try:
        _replace_or_undrain(place)
    finally:
        for each, handler in zip(SIGNALS, handlers, strict=False):
            signal.signal(each, handler)


def _replace_or_undrain(place: Place) -> None:
    """Leaves a drain that somebody else has set since. Each command is repeated while slurmctld does not answer: on a
    node that is always on, nothing else ends the drain."""
    if place.fault:
        place.is_replaced = answered.until_answered(place.is_ours, "ask for the drain")
        if place.is_replaced:
            answered.until_answered(lambda: replace(place.node, place.fault), "drain")
    else:
        answered.until_answered(lambda: _undrain(place), "end the drain")


def _undrain(place: Place) -> None:
    """Not `resume`: that would make a node that is powering down a node that is off (node_mgr.c: update_node)."""
    if place.is_ours():
        slurm.update([place.node], state="undrain")
