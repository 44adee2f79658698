"""Scenarios of a cluster at AWS's pace, and their results."""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from tests.pace import world
from tests.pace.world import ROOT, World

LIMIT_S = 7200.0
SETTLE_S = 300.0  # for what is left over to be ended


@dataclass(frozen=True)
class Outcome:
    scenario: str
    ended: bool  # all jobs ran to their end
    seconds: float  # from the last submission until the last job first ran, of the cloud's time
    down_while_launching: int
    downs: int
    leaked: int
    launches: int
    wanted: int  # instances that the jobs needed
    calls: dict[str, int]
    errors: dict[str, int]
    failures: list[str]
    reasons: list[str]  # of nodes set DOWN
    real_s: float


@dataclass(frozen=True)
class Scenario:
    play: Callable[[World], int]  # returns how many instances the jobs need; the last submission is its end
    nodes: int
    types: tuple[str, ...] = world.TYPES
    reserved: bool = False


def sixteen(world: World) -> int:
    world.slurm.submit(16)
    return 16


def array(world: World) -> int:
    world.slurm.submit(64)
    return 64


def thousand(world: World) -> int:
    world.slurm.submit(1, 1000)
    return 1000


def no_capacity(world: World) -> int:
    """The first two of three types have no capacity."""
    for each in ("g5.12xlarge", "g6.12xlarge"):
        world.fault("capacity", instance_type=each)
    world.slurm.submit(16)
    return 16


def throttled(world: World) -> int:
    """Other callers of the account use up the request limits."""
    world.fault("throttle", action="ec2:RunInstances", count=12)
    world.fault("throttle", action="ec2:CreateTags", count=12)
    world.fault("throttle", action="route53:ChangeResourceRecordSets", count=6)
    world.fault("throttle", action="ec2:DescribeInstances", count=12)
    world.slurm.submit(16)
    return 16


def wanted_again(world: World) -> int:
    """Suspended nodes are needed again while their instances, which fill the reservation, still shut down."""
    (job,) = world.slurm.submit(1, 2)
    nodes = world.slurm.nodes.values()
    world.run(lambda: job.ended and all("POWERED_DOWN" in node.flags for node in nodes), LIMIT_S)
    world.slurm.submit(1, 2)
    return 4


def wave(world: World) -> int:
    """All instances of running jobs are terminated in the same second."""
    world.slurm.submit(32, runs_s=900)
    world.run(lambda: all(job.began is not None for job in world.slurm.jobs), LIMIT_S)
    world.end(list(world.named()))
    for job in world.slurm.jobs:
        job.began = None
    return 64


SCENARIOS = {
    "16 single-node jobs": Scenario(sixteen, 16),
    "array of 64": Scenario(array, 64),
    "1 job of 1000 nodes": Scenario(thousand, 1000),
    "two types of three without capacity": Scenario(no_capacity, 16, ("g5.12xlarge", "g6.12xlarge", "g6e.12xlarge")),
    "throttled": Scenario(throttled, 16),
    "wanted again while they end": Scenario(wanted_again, 2, reserved=True),
    "32 running nodes ended at once": Scenario(wave, 32),
}


def play(name: str, code: Path = ROOT, pace: str = "aws", without_lags: Collection[str] = ()) -> Outcome:
    scenario, started = SCENARIOS[name], time.monotonic()
    random.seed(0)
    with (
        tempfile.TemporaryDirectory() as folder,
        world.made(
            Path(folder), {"train": scenario.nodes}, scenario.types, code, pace, scenario.reserved, without_lags
        ) as made,
    ):
        made.begin()
        made.run(lambda: made.programs.running != [], 10)
        wanted = scenario.play(made)
        submitted = made.clock.now()
        ended = made.run(lambda: all(job.ended for job in made.slurm.jobs), LIMIT_S)
        seconds = max((job.began or made.clock.now()) for job in made.slurm.jobs) - submitted
        made.run(lambda: not made.leaked(), SETTLE_S)
        return Outcome(
            name, ended, seconds, len(made.down_while_launching), len(made.slurm.downs), len(made.leaked()),
            made.launches(), wanted, dict(made.cloud.calls), dict(made.cloud.errors), made.programs.failures,
            [f"{down.at:.0f} s {down.node} {down.reason}" for down in made.slurm.downs], time.monotonic() - started,
        )  # fmt: skip
