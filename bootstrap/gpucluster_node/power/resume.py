"""Launches what Slurm asks for with its ResumeProgram: the instances of nodes that jobs wait for.

The nodes of a job are launched together or not at all. Jobs of one node share a call, which may launch some of the
nodes. If EC2 lacks capacity, the launch is repeated every 15 s, as long as a job waits for it. If EC2 throttles or does
not answer, the call is repeated under the same condition. Nodes that could not be launched are set DOWN, with EC2's
code and message as the reason. During a launch, `journal` lists the nodes and why they wait.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timezone
from functools import partial

from gpucluster_node import ec2, fleet, refusals, retry, slurm
from gpucluster_node.aws import AWS_ERRORS, brief, client, error_code
from gpucluster_node.power import failing, journal, last_launches, launch, limits, shortage, spending, spool
from gpucluster_node.power.demand import Demand
from gpucluster_node.power.groups import Group, groups
from gpucluster_node.power.joining import Joining
from gpucluster_node.power.journal import Call

log = logging.getLogger("resume")
GROUPS_AT_ONCE = 500
"""Most of the threads wait, for EC2's rate limit or for capacity. A launch without capacity keeps its thread for 15
minutes, and another one, of a type that EC2 has, must not wait behind it."""
ASK_S = 900.0
"""How long a launch without capacity is repeated. Slurm gives up on a node at least 1,800 s after it requested it
(ResumeTimeout), and the node must boot in the remaining time."""

LATE_S = 5.0
"""If a request has waited for longer, Slurm is asked first whether it still powers its nodes up."""
MOST_REPLAYS = 5
"""An `up` with new programs ends the daemon, too."""
LOOK_S = 5.0
"""How often a paused launch checks whether it may continue."""
READ_AGAIN_S = 10.0
"""How old what is known of the cluster may be: less than the shortest time between two turns (`shortage`), so that each
turn uses what `gpucluster up` has written before it."""


class Resume:
    """The launches of one request. Groups are launched in parallel: none waits until another one has failed."""

    def __init__(
        self,
        cluster: fleet.Fleet,
        launcher: launch.Launcher,
        record: journal.Record,
        load: Callable[[], fleet.Fleet] = fleet.newest,
    ) -> None:
        """load: returns what the cluster is now."""
        self._cluster, self._launcher, self._record, self._load = cluster, launcher, record, load
        self._limits = limits.Limits(cluster, lambda: client("ec2"), _now, _newest_prices, record.journal.nodes)
        self._wanted = Demand(lambda: self._cluster, record, launcher.unsure)
        self._joining = Joining(cluster, record, self._refuse, launcher.clock)
        self._templates: dict[str, tuple[fleet.LaunchTemplate, ...]] = {}
        self._stale: set[str] = set()
        self._reading, self._read_at = threading.Lock(), launcher.clock()

    def run(self, wanted: Sequence[Group], calls: Sequence[Call] = ()) -> None:
        """calls: those of a process that has ended."""
        last_launches.forget(node for group in wanted for node in group.nodes)
        with self._joining.tags, ThreadPoolExecutor(GROUPS_AT_ONCE) as pool:
            list(pool.map(lambda group: self.one(group, calls), wanted))

    def one(self, group: Group, calls: Sequence[Call] = ()) -> None:
        """After any error it sets nodes DOWN that were not launched: Slurm would show them as powering up until its
        timeout."""
        left = list(group.nodes)
        together = group.job_id is not None

        def keep(instances: Mapping[str, ec2.Instance]) -> None:
            left[:] = [node for node in left if node not in instances]
            self._joining.keep(group, instances)

        try:
            for call in calls:
                if set(left).intersection(call.nodes):
                    self._repeat(call, left, keep)
            since = self._launcher.clock()
            patience: launch.Patience | None = None
            while left:
                usable = self._usable(self._templates_of(group.partition), left, since)
                if not usable:
                    patience = None
                    continue
                with self._limits.one_at_a_time(group.partition):
                    room = self._limits.room(group.partition, usable)
                    paid = room.of(left, together=together)
                    found = self._launcher.launch(
                        paid, usable, keep, together=together, wanted=self._wanted.now, patience=patience
                    )
                    patience = found.patience if found.is_abandoned else None
                if found.left or not left:
                    if not self._waits(group.partition, found, left, since, together=together):
                        return
                elif not self._waits_at_limit(room.why, left, since):
                    return
        except Exception as error:
            self._refuse(left, brief(error))

    def _repeat(self, call: Call, left: list[str], keep: launch.HandOver) -> None:
        """If EC2 had accepted the call, its instances get their names. Otherwise it drops nodes that are no longer
        wanted."""
        try:
            patience = launch.Patience(self._launcher.clock())
            instances = self._launcher.call(call, self._wanted.now, patience, is_new=False)
            found = zip(call.nodes, instances, strict=False)
            keep({node: instance for node, instance in found if node in left})
        except (*AWS_ERRORS, launch.NotWantedError) as error:
            log.info("%s: the call of a process that has ended is not repeated: %s", ",".join(call.nodes), error)
            left[:] = self._wanted.still(left)

    def _usable(
        self, templates: Sequence[fleet.LaunchTemplate], left: list[str], since: float
    ) -> list[fleet.LaunchTemplate]:
        """The templates whose type does not pause. If all types pause, it waits a moment and drops nodes that are no
        longer wanted. A pause may be longer than Slurm's timeout, so the nodes are set DOWN before that."""
        paused = failing.pauses(failing.utc())
        usable = [each for each in templates if each.instance_type not in paused]
        if usable:
            return usable
        why = "; ".join(paused[each.instance_type] for each in templates)
        if self._launcher.clock() - since >= ASK_S:
            self._refuse(left, why)
            left.clear()
        else:
            self._launcher.waits(left, why)
            self._launcher.sleep(LOOK_S)
            left[:] = self._wanted.still(left)
            self._read_again()
        return []

    def _waits(self, partition: str, found: launch.Launched, left: list[str], since: float, *, together: bool) -> bool:
        """Waits until the launch may be repeated, and drops nodes that are no longer wanted. False if there is nothing
        to wait for; then it has set the remaining nodes DOWN."""
        turns = shortage.Turns(partition, self._launcher.clock)
        if found.some or not found.left:
            turns.succeeded()
        if not found.left:
            return False
        if found.is_abandoned or self._launcher.wait_for_room(client("ec2"), found, since):
            left[:] = self._wanted.still(left)
            return bool(left)
        count(partition, found)
        if found.lacks_capacity and self._launcher.clock() - since < ASK_S:
            if not found.some:
                turns.failed()
            self._wait_for_turn(turns, found.why, left, together=together)
            self._read_again()
            return bool(left)
        self._refuse(left, found.why)
        return False

    def _waits_at_limit(self, why: str, left: list[str], since: float) -> bool:
        """Waits at a limit (`limits`). False if no job waits for the nodes any longer, or if it has set them DOWN."""
        if self._launcher.clock() - since >= ASK_S:
            self._refuse(left, why)
            return False
        self._launcher.waits(left, f"{why}; the head node checks again every {shortage.EVERY_S} s")
        log.info("%s: checks again later: %s", ",".join(left), why)
        self._launcher.sleep(shortage.EVERY_S)
        left[:] = self._wanted.still(left)
        self._read_again()
        return bool(left)

    def _read_again(self) -> None:
        """`gpucluster up` may have raised a limit since, or given the partition another type or Capacity Block. The
        bundle of another release may have another form: then the launch goes by what it has read."""
        with self._reading:
            now = self._launcher.clock()
            if now - self._read_at < READ_AGAIN_S:
                return  # another launch has just done it
            self._read_at = now
            self._stale = set(self._templates)
            try:
                self._cluster = self._load()
            except (OSError, KeyError, TypeError, ValueError) as error:
                log.warning("the newest bundle cannot be read: %s", error)
            self._limits = replace(self._limits, cluster=self._cluster)

    def _wait_for_turn(self, turns: shortage.Turns, why: str, left: list[str], *, together: bool) -> None:
        self._launcher.waits(left, f"{why}; the head node retries every {shortage.EVERY_S} s")
        log.info("%s: retries later: %s", ",".join(left), why)
        with turns.waiting():
            for seconds in itertools.count(1):
                self._launcher.sleep(1)
                if seconds % shortage.EVERY_S == 0:
                    left[:] = self._wanted.still(left)
                if not left or turns.may_call(len(left) if together else 1):
                    return

    def _templates_of(self, partition: str) -> tuple[fleet.LaunchTemplate, ...]:
        """Reads them once for all groups, because Parameter Store answers at most 40 calls a second for an account."""
        with self._reading:
            if partition not in self._templates or partition in self._stale:
                self._stale.discard(partition)
                try:
                    self._templates[partition] = fleet.launch_templates(client("ssm"), self._cluster, partition)
                except AWS_ERRORS as error:
                    if partition not in self._templates:
                        raise
                    log.warning("the newest launch templates cannot be read: %s", brief(error))
            return self._templates[partition]

    def _refuse(self, nodes: Sequence[str], why: str) -> None:
        if not nodes:
            return
        _set_down(nodes, why)
        self._record.done(nodes)


def _now() -> datetime:
    return datetime.now(timezone.utc)


def _newest_prices() -> dict[str, float]:
    return spending.prices(fleet.NEWEST)


def count(partition: str, found: launch.Launched) -> None:
    for _, error in found.errors:
        refusals.record(partition, error_code(error))


def accept(request: spool.Request, book: journal.Journal) -> Callable[[], None]:
    """Records the nodes that no other launch has, and returns the function that launches them."""
    record = book.open(request.nodes, request.jobs)
    if len(record.mine) < len(request.nodes):
        log.warning("another launch has %s", ",".join(node for node in request.nodes if node not in record.mine))
    if already := last_launches.after(request.since, record.mine):  # by a launch that has ended since Slurm asked
        log.warning("%s: launched since Slurm asked", ",".join(already))
        record.done(already)
    return partial(_launch, record, asks_slurm=time.time() - request.since > LATE_S)


def launch_again(record: journal.Record) -> None:
    """Completes the launches of a process that has ended. If it was killed by them, for lack of memory perhaps, that
    must end some time: reconcile sets the nodes DOWN."""
    if record.replays > MOST_REPLAYS:
        log.error("%s: launched %s times in vain", ",".join(record.mine), record.replays)
        record.close()
        return
    log.warning("%s: their launch was interrupted; goes on", ",".join(record.mine))
    _launch(record, asks_slurm=True)


def _launch(record: journal.Record, *, asks_slurm: bool) -> None:
    try:
        cluster = fleet.load()
        launcher = launch.Launcher(
            cluster, f"{time.time_ns()}", lambda: client("ec2", attempts=1), waits=record.waits, asked=record.asked
        )
        calls = list(record.calls.values())
        if record.replays:
            launcher.unsure.update(record.left)  # what EC2 answered is not known
        left = [node for node in record.mine if node in record.left]
        if asks_slurm:
            left = Demand(lambda: cluster, record, launcher.unsure).still(left)
        Resume(cluster, launcher, record).run(groups(cluster, left, record.jobs), calls)
    except Exception:
        log.exception("%s: the launch failed", ",".join(record.left))
    record.close()


def _set_down(nodes: Sequence[str], why: str) -> None:
    log.error("%s set down: %s", ",".join(nodes), why)
    try:
        slurm.set_down(nodes, retry.reason(why, retry.LAUNCH_REFUSED_S))
    except slurm.SlurmError as error:
        log.error("reconcile sets them down later: %s", error)
