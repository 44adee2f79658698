"""Random events, failed calls and killed programs; then nothing more happens, and all is well within the hour."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import strategies as st

from tests.unit.node.power.random_world import SIZE, USERS, World, install

TROUBLE = ("", "", "", "slow", "refuse", "fault", "lose answer", "kill before", "kill after")
HOUR_S = 3600.0


@contextmanager
def played(lag_s: float, trouble: list[str]) -> Iterator[World]:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        world = World(Path(folder), lag_s, list(trouble))
        install(world, patch)
        logging.disable()
        try:
            yield world
        finally:
            logging.disable(logging.NOTSET)


def end_one(world: World) -> None:
    for each in world.machines:
        if each.ended is None:
            each.ended = world.now
            return


def user_sets_down(world: World) -> None:
    world.held.add("train-3")
    world.slurm.run(["scontrol", "update", "nodename=train-3", "state=down", "reason=bad GPU"])


def user_drains(world: World) -> None:
    world.slurm.run(["scontrol", "update", "nodename=train-3", "state=drain", f"reason={USERS}"])


def forced_down(world: World) -> None:
    world.slurm.run(["scontrol", "update", "nodename=train-2,train-3", "state=power_down_force"])


def omitted(world: World) -> None:
    world.omitted_until = world.now + 45  # longer than GONE_GRACE: nodes that answer Slurm stay


EVENTS: dict[str, Callable[[World], object]] = {
    "a job": lambda world: world.slurm.submit(1, runs_s=20),
    "a job of two": lambda world: world.slurm.submit(1, 2, runs_s=40),
    "an instance ends": end_one,
    "EC2 omits instances": omitted,
    "a boot fails": lambda world: setattr(world, "fail_boots", 1),
    "no capacity": lambda world: setattr(world, "capacity", 0),
    "capacity": lambda world: setattr(world, "capacity", SIZE + 1),
    "the daemon starts again": World.restart,
    "powered down by a user": forced_down,
    "set DOWN by a user": user_sets_down,
    "drained by a user": user_drains,
    "5 s": lambda world: world.advance(5),
    "a minute": lambda world: world.advance(60),
    "five minutes": lambda world: world.advance(300),
}


TROUBLED = {
    "events": st.lists(st.sampled_from(sorted(EVENTS)), min_size=1, max_size=10),
    "trouble": st.lists(st.sampled_from(TROUBLE), max_size=40),
    "lag_s": st.sampled_from((0.0, 3.0, 16.0)),
}
"""What hypothesis draws. `lag_s`: how late EC2 shows its instances."""


def _happens(world: World, events: list[str]) -> None:
    for each in events:
        EVENTS[each](world)
        world.advance(5)
    world.trouble, world.quiet, world.capacity, world.fail_boots = [], True, SIZE + 3, 0


def _assert_all_ends_well(world: World) -> None:
    until = world.now + HOUR_S
    while not (world.settled() or world.wrong or world.now > until):
        world.advance(30)
    assert world.wrong == []
    states = [f"{each.name} {each.state} {each.reason}" for each in world.slurm.nodes.values()]
    assert world.settled(), (world.now, states, [each for each in world.machines if each.ended is None])
    assert world.book.nodes() == frozenset()


def all_ends_well(events: list[str], trouble: list[str], lag_s: float) -> None:
    with played(lag_s, trouble) as world:
        _happens(world, events)
        _assert_all_ends_well(world)
