"""A small EC2 beside the played Slurm, and the real daemon in them: with trouble as a test draws
it, on virtual time.

EC2 shows a launch, a name and an end some seconds late (its guide: eventual consistency), launches fewer than asked,
refuses, fails before or after it has acted, and ends instances by itself. The daemon can be killed at each of its
calls. A thread that sleeps or waits for a slow answer lets the others run meanwhile.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError
from gpucluster_node import ec2, files, fleet, names, slurm, spooled
from gpucluster_node.aws import AWS_ERRORS
from gpucluster_node.power import (
    budget_stop,
    daemon,
    joining,
    journal,
    labels,
    last_launches,
    launch,
    outdated,
    reconcile,
    resume,
    shortage,
    spool,
    suspend,
)

from tests.pace.slurm import Controller, expand

START = datetime(2026, 11, 23, 12, 0, 0)
SIZE = 3
CLUSTER = fleet.Fleet("c", "c.internal", "/c/", (fleet.Partition("train", 1, SIZE, "on-demand"),))
UNCOUNTED: Any = SimpleNamespace(update=lambda instances, now: None, usd=0.0)
SILENT: Any = SimpleNamespace(look=lambda nodes, newest, now: None)
PLACES: Any = SimpleNamespace(look=lambda cluster, nodes, newest: None)
TICK_S, BOOT_S, SLOW_S, RESTART_S = 5.0, 30.0, 20.0, 5.0
SUSPEND_S = RESUME_S = 240.0
ENDING_S = 60.0
LIVE = ("pending", "running")
USERS = "bad GPU, do not touch"
"""The reason of a node that a user has drained."""


class Killed(BaseException):
    """SIGKILL of the daemon, which made a call, or a crash of the head node."""


@dataclass
class Machine:
    number: int
    launched: float
    launch_index: int = 0
    token: str = ""
    value: str = ""
    """The value of the tag that names its node."""
    node: str = ""
    label: str = ""
    ended: float | None = None
    ended_by: str = ""
    """EC2's code and message."""
    failed: bool = False
    """Its boot fails and says so."""
    named: float = 0.0
    joined: bool = False

    @property
    def id(self) -> str:
        return f"i-{self.number:08x}"


class Inline:
    """An executor whose work is done at once, so that an example runs the same way again."""

    def __init__(self, _: int) -> None: ...
    def __enter__(self) -> Inline:
        return self

    def __exit__(self, *_: object) -> None: ...
    def map(self, work: Callable[[Any], Any], values: Sequence[Any]) -> list[Any]:
        return [work(value) for value in values]

    def submit(self, work: Callable[..., Any], *arguments: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(work(*arguments))
        except Exception as error:
            done.set_exception(error)
        return done


@dataclass
class World:
    folder: Path
    lag_s: float
    trouble: list[str]
    """The answers of the next calls, one for each."""
    now: float = 0.0
    machines: list[Machine] = field(default_factory=list)
    launches: dict[str, list[Machine]] = field(default_factory=dict)
    capacity: int = SIZE
    fail_boots: int = 0
    omitted_until: float = 0.0
    held: set[str] = field(default_factory=set)
    """Nodes that a user has set DOWN."""
    life: int = 0
    """The number of the daemon's life: each kill begins another one."""
    killed: bool = False
    down_until: float = 0.0
    reconciling: bool = False
    wrong: list[str] = field(default_factory=list)
    quiet: bool = False
    """Nothing more happens: what is wrong now stays wrong."""
    _since: dict[str, float] = field(default_factory=dict)
    _lives: list[int] = field(default_factory=list)
    """The lives of the daemon's threads that run, one inside another."""
    _requests: Iterator[int] = field(default_factory=lambda: itertools.count())

    def __post_init__(self) -> None:
        self.slurm = Controller(
            {"train": SIZE}, lambda: self.now, self.wall, RESUME_S, ENDING_S, 60, SUSPEND_S, CLUSTER.always_on()
        )
        (self.folder / "requests").mkdir()

    def wall(self) -> datetime:
        return START + timedelta(seconds=self.now)

    def epoch_s(self) -> float:
        return self.wall().replace(tzinfo=UTC).timestamp()

    # --- time ---

    def advance(self, seconds: float) -> None:
        until = self.now + seconds
        while self.now < until:
            following = (self.now // TICK_S + 1) * TICK_S
            self.now = min(until, following)
            if self.now == following:
                self._tick()

    def _tick(self) -> None:
        self._boot()
        self.slurm.tick(partial(self._ask, "resume"), partial(self._ask, "suspend"))
        if self.now >= self.down_until:
            self._live()
        self._judge()

    def _live(self) -> None:
        if self._lives and self._lives[-1] != self.life:
            return  # the killed one's stack has to end first
        if self.killed:
            self.restart()
        self._run(self.daemon.look)
        if not self.reconciling:
            self._reconcile()

    def _ask(self, name: str, nodes: list[str], jobs: Sequence[dict[str, object]] = ()) -> None:
        """As bin/power-request."""
        path = self.folder / "requests" / f"{name}.{next(self._requests)}"
        path.write_text(f"{','.join(nodes)}\n{json.dumps({'jobs': jobs})}")
        os.utime(path, (self.epoch_s(), self.epoch_s()))

    def _boot(self) -> None:
        alive = {each.node: each for each in self.machines if each.node and each.ended is None}
        for each in self.machines:
            booted = max(each.launched + BOOT_S, each.named)
            if each.node and each.ended is None and not each.failed and booted <= self.now:
                self._joins(each)
        for name, node in self.slurm.nodes.items():
            if name not in alive or alive[name].failed:
                self.slurm.is_silent(name)
            elif node.silent_since is not None:
                node.silent_since = None

    def _joins(self, machine: Machine) -> None:
        node = self.slurm.nodes[machine.node]
        if not machine.joined or node.base == "DOWN":
            self.slurm.registers(machine.node, machine.launched + 1)
            machine.joined = not node.flags & {"POWERING_UP", "POWERING_DOWN", "POWERED_DOWN"}

    # --- the daemon ---

    def restart(self) -> None:
        """Begins another life of the daemon."""
        self.life, self.killed = self.life + 1, False
        templates = outdated.Wanted(lambda: self, lambda: self.now)
        unfailing: Any = SimpleNamespace(look=lambda *given: None)  # failures in a row: test_node_failing.py
        labelling = labels.Labels(lambda: self, lambda: self.now)
        budget = budget_stop.BudgetStop(lambda: CLUSTER)
        self.book = journal.Journal(self.folder / "launching")
        self.daemon = daemon.Daemon(self.book, self.folder / "requests", self._run)
        self.rounds = reconcile.Rounds(
            CLUSTER, UNCOUNTED, SILENT, budget, PLACES, templates, labelling, self.book, unfailing
        )
        self._run(self.daemon.replay)

    def _kill(self) -> None:
        """Ends the caller at its next step, as a kill does. systemd starts the daemon again."""
        self.life, self.killed = self.life + 1, True
        self.down_until = self.now + RESTART_S
        raise Killed

    def goes_on(self) -> None:
        """Called before each step of the daemon: its process may have been killed meanwhile."""
        if self._lives and self._lives[-1] != self.life:
            raise Killed

    def _run(self, work: Callable[[], None]) -> None:
        """A thread of the daemon."""
        self.goes_on()
        self._lives.append(self.life)
        try:
            with suppress(Killed, slurm.SlurmError, *AWS_ERRORS):
                work()
        finally:
            self._lives.pop()
        self.goes_on()

    def _sleep(self, seconds: float) -> None:
        self.advance(seconds)
        self.goes_on()

    def _reconcile(self) -> None:
        self.reconciling = True
        try:
            self._run(lambda: reconcile.act(self.rounds.actions()))
        finally:
            self.reconciling = False

    # --- calls ---

    @contextmanager
    def _call(self, name: str) -> Iterator[None]:
        self.goes_on()
        trouble = self.trouble.pop(0) if self.trouble else ""
        if trouble == "slow":
            self._sleep(SLOW_S)
        if trouble == "kill before":
            self._kill()
        if trouble == "refuse":
            raise error(name, "RequestLimitExceeded")
        if trouble == "fault":
            raise error(name, "InternalError", 500)
        yield
        if trouble == "lose answer":
            raise error(name, "InternalError", 500)
        if trouble == "kill after":
            self._kill()

    def scontrol(self, argv: list[str]) -> str:
        try:
            with self._call("scontrol"):
                self._judge_update(argv)
                return self.slurm.run(argv)
        except ClientError as failed:
            raise slurm.SlurmError(str(failed)) from None

    def get_parameter(self, Name: str) -> dict[str, Any]:
        with self._call("GetParameter"):
            types = [{"instance_type": "g5.xlarge", "launch_template_id": "lt-1", "version": 1}]
            return {"Parameter": {"Value": json.dumps({"instance_types": types, "hosted_zone_id": "Z1"})}}

    def change_resource_record_sets(self, **_: Any) -> None:
        with self._call("ChangeResourceRecordSets"):
            pass

    def run_instances(self, MinCount: int, MaxCount: int, ClientToken: str, **_: Any) -> dict[str, Any]:
        with self._call("RunInstances"):
            if ClientToken not in self.launches:
                free = self.capacity - sum(each.ended is None for each in self.machines)
                if free < MinCount:
                    raise error("RunInstances", "InsufficientInstanceCapacity", 500)
                self.launches[ClientToken] = [
                    self._launched(index, ClientToken) for index in range(min(free, MaxCount))
                ]
            return {"Instances": [self._shown(each) for each in self.launches[ClientToken]]}

    def _launched(self, index: int, token: str) -> Machine:
        made = Machine(len(self.machines), self.now, index, token, failed=self.fail_boots > 0)
        self.fail_boots = max(0, self.fail_boots - 1)
        self.machines.append(made)
        return made

    def create_tags(self, Resources: list[str], Tags: list[dict[str, str]]) -> None:
        with self._call("CreateTags"):
            for machine in (each for each in self.machines if each.id in Resources):
                for tag in Tags:
                    self._tag(machine, tag["Key"], tag["Value"])

    def _tag(self, machine: Machine, key: str, value: str) -> None:
        if key == names.TAG:
            before, machine.value = machine.node, value
            machine.node = names.node_of(value, machine.launch_index) or ""
            machine.named = machine.named if machine.node == before else self.now
        else:
            machine.label = value

    def terminate_instances(self, InstanceIds: list[str]) -> None:
        with self._call("TerminateInstances"):
            for each in self.machines:
                if each.id in InstanceIds and each.ended is None:
                    each.ended = self.now

    def get_paginator(self, action: str) -> Any:
        return SimpleNamespace(paginate=self._listed if action == "describe_instances" else self._records)

    def _records(self, **_: Any) -> Iterator[dict[str, Any]]:
        with self._call("ListResourceRecordSets"):
            yield {"ResourceRecordSets": []}

    def _listed(self, Filters: list[dict[str, Any]], **_: Any) -> list[dict[str, Any]]:
        with self._call("DescribeInstances"):
            asked = {each["Name"]: each["Values"] for each in Filters}
            shown = [self._shown(each) for each in self.machines if each.launched + self.lag_s <= self.now]
            found = [each for each in shown if each["State"]["Name"] in asked["instance-state-name"]]
            return [{"Reservations": [{"Instances": [] if self.now < self.omitted_until else found}]}]

    def _shown(self, machine: Machine) -> dict[str, Any]:
        over = machine.ended is not None and machine.ended + self.lag_s <= self.now
        tags = {names.TAG: machine.value} if machine.value and machine.named + self.lag_s <= self.now else {}
        tags |= {"Name": machine.label} if machine.label else {}
        if machine.failed and tags and machine.launched + BOOT_S <= self.now:
            tags[ec2.FAILURE_TAG] = "step=x line=1"
        return {
            "InstanceId": machine.id,
            "State": {"Name": "terminated" if over else "running"},
            "StateReason": {"Message": machine.ended_by if over else ""},
            "PrivateIpAddress": f"10.0.0.{machine.number % 250}",
            "LaunchTime": (START + timedelta(seconds=machine.launched)).replace(tzinfo=UTC),
            "AmiLaunchIndex": machine.launch_index,
            "ClientToken": machine.token,
            "Tags": [{"Key": key, "Value": value} for key, value in tags.items()],
        }

    # --- what must hold ---

    def _judge(self) -> None:
        """Counted from when nothing more happens."""
        found = {f"{each.id} has no node": 240.0 for each in self.machines if self._is_orphan(each)}
        found |= {f"{name} is DOWN": 480.0 for name, node in self.slurm.nodes.items() if self._is_down(name)}
        self._since = {what: self._since.get(what, self.now) for what in found} if self.quiet else {}
        self.wrong += [f"{self.now:.0f} s: {what}" for what, at in self._since.items() if self.now - at > found[what]]

    def _judge_update(self, argv: list[str]) -> None:
        """Only Slurm itself, when it powers an idle node down, ends a user's drain."""
        if argv[:2] != ["scontrol", "update"] or argv[-1] not in ("state=resume", "state=power_down_force"):
            return
        for node in (self.slurm.nodes[name] for name in expand(argv[2].removeprefix("nodename="))):
            if "DRAIN" in node.flags and node.reason.startswith(USERS):
                self.wrong.append(f"{self.now:.0f} s: {argv[-1]} ends the drain of {node.name}, {node.state}")

    def _is_orphan(self, machine: Machine) -> bool:
        if machine.ended is not None:
            return False
        node = self.slurm.nodes.get(machine.node)
        if node is None or node.flags & {"POWERED_DOWN", "POWERING_DOWN"}:
            return True
        of_earlier_life = "POWERING_UP" in node.flags and machine.launched < node.since
        return of_earlier_life or any(
            each.node == machine.node and each.ended is None and each.number > machine.number for each in self.machines
        )

    def _is_down(self, name: str) -> bool:
        return self.slurm.nodes[name].base == "DOWN" and name not in self.held

    def settled(self) -> bool:
        """All jobs have ended, and only the nodes that are always on are up, with their instances."""
        alive = sorted(each.node for each in self.machines if each.ended is None)
        wanted = [name for name in CLUSTER.always_on() if name not in self.held]
        up = [
            name
            for name, node in self.slurm.nodes.items()
            if node.flags - {"POWER_UP"} == {"CLOUD"} and node.base == "IDLE"
        ]
        return all(job.ended for job in self.slurm.jobs) and alive == up == wanted


def error(action: str, code: str, status: int = 400) -> ClientError:
    answer: Any = {"Error": {"Code": code, "Message": "x"}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(answer, action)


def install(world: World, patch: pytest.MonkeyPatch) -> None:
    """Puts the world in the place of AWS, Slurm, threads and the clock."""

    class Clock(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return world.wall().replace(tzinfo=tz)

    for module in (joining, reconcile, resume, suspend):
        patch.setattr(module, "client", lambda service, attempts=0: world)
    patch.setattr(reconcile, "datetime", Clock)
    patch.setattr(slurm, "call", world.scontrol)
    patch.setattr(slurm, "expand", expand)
    put, record = files.put, last_launches._put

    def put_if_alive(path: Path, text: str) -> None:
        world.goes_on()
        put(path, text)

    def record_at(node: str, launch_: last_launches.Launch) -> None:
        record(node, launch_)
        os.utime(last_launches.FOLDER / node, (world.epoch_s(), world.epoch_s()))

    patch.setattr(files, "put", put_if_alive)
    patch.setattr(last_launches, "_put", record_at)
    patch.setattr(fleet, "load", lambda: CLUSTER)
    patch.setattr(spooled, "_owners", lambda: {os.getuid()})
    now = SimpleNamespace(time=world.epoch_s, time_ns=lambda: int(world.epoch_s() * 1e9))
    for where in (spool, resume):
        patch.setattr(where, "time", now)
    patch.setattr(launch, "Launcher", partial(launch.Launcher, clock=lambda: world.now, sleep=world._sleep))
    patch.setattr(shortage, "_next", {})
    patch.setattr(last_launches, "FOLDER", world.folder / "launched")
    patch.setattr(reconcile.booting, "write", lambda found: None)
    patch.setattr(resume.refusals, "record", lambda partition, code: None)
    for module in (joining, resume):
        patch.setattr(module, "ThreadPoolExecutor", Inline)
    patch.setattr(ec2, "time", SimpleNamespace(sleep=world._sleep, monotonic=lambda: world.now))
    for bucket in ((launch, "CALLS"), (ec2, "TAG_CALLS")):
        patch.setattr(*bucket, SimpleNamespace(take=lambda: None))
    world.restart()
