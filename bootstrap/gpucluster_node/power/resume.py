"""Slurm's ResumeProgram: launches the instances of nodes that jobs wait for.

usage: resume HOSTLIST [again]. The file SLURM_RESUME_FILE lists the nodes of each job. With `again` the program repeats
the launch of one that was killed. The nodes of a job are launched together or not at all. Jobs of one node share a
call, which may launch some of the nodes. If EC2 lacks capacity, the program repeats the launch every 15 s, as long as a
job waits for it. If EC2 throttles or does not answer, the program repeats the call under the same condition. It sets
nodes that it could not launch DOWN, with EC2's code and message as the reason. During a launch, `in_flight` lists the
nodes and why they wait. Nodes that another program is launching are left to it.
"""

from __future__ import annotations

import itertools
import json
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import cached_property
from pathlib import Path
from typing import Any

from gpucluster_node import dns, ec2, fleet, names, refusals, retry, slurm
from gpucluster_node.aws import AWS_ERRORS, brief, client, error_code
from gpucluster_node.log import start_logging
from gpucluster_node.power import failing, in_flight, launch, launched, limits, shortage, spending

log = logging.getLogger("resume")
GROUPS_AT_ONCE = 64
"""Most of the threads wait for EC2's rate limit."""
TAGS_AT_ONCE = 16
PUBLISH_EACH_S = 60.0
"""How long addresses are set node by node after the call for all nodes failed. The nodes' boots wait for it."""
ASK_S = 900.0
"""How long a launch without capacity is repeated. Slurm gives up on a node at least 1,800 s after it requested it
(ResumeTimeout), and the node must boot in the remaining time."""

LOOK_S = 5.0
"""How often a paused launch checks whether it may continue."""


@dataclass(frozen=True)
class Group:
    """Nodes that are launched with one call. job_id: the job whose nodes are launched together or not at all. None:
    nodes of several jobs of one node, or of no job; as many are launched as EC2 has capacity for."""

    partition: str
    nodes: tuple[str, ...]
    job_id: int | None = None


def groups(cluster: fleet.Fleet, nodes: Sequence[str], jobs: Sequence[dict[str, Any]]) -> list[Group]:
    """One for each job and partition that wants several nodes, and one for all single nodes of a partition."""
    found: list[Group] = []
    left = dict.fromkeys(nodes)
    for job in jobs:
        wanted = [node for node in slurm.expand(job["nodes_resume"]) if node in left]
        of_job = (Group(name, members, job["job_id"]) for name, members in _by_partition(cluster, wanted))
        for group in of_job:
            if len(group.nodes) > 1:
                found.append(group)
                left = {node: None for node in left if node not in group.nodes}
    return found + [Group(name, members) for name, members in _by_partition(cluster, list(left))]


def _by_partition(cluster: fleet.Fleet, nodes: Sequence[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    of = {node: partition.name for node in nodes if (partition := cluster.partition_of(node))}
    for name in dict.fromkeys(of.values()):
        yield name, tuple(node for node in nodes if of.get(node) == name)


class Resume:
    """One run of the program. It launches groups in parallel, so that none waits until another one has failed."""

    def __init__(
        self,
        cluster: fleet.Fleet,
        launcher: launch.Launcher,
        record: in_flight.Record,
        load: Callable[[], fleet.Fleet] = lambda: fleet.load(fleet.NEWEST / "fleet.json"),
    ) -> None:
        """load: returns what the cluster is now."""
        self._cluster, self._launcher, self._record, self._load = cluster, launcher, record, load
        self._limits = limits.Limits(cluster, lambda: client("ec2"), lambda: datetime.now(timezone.utc), _newest_prices)
        self._records = dns.Writer(self._write)
        self._templates: dict[str, tuple[fleet.LaunchTemplate, ...]] = {}
        self._reading = threading.Lock()
        self._tags = ThreadPoolExecutor(TAGS_AT_ONCE)

    def run(self, wanted: Sequence[Group]) -> None:
        launched.forget(node for group in wanted for node in group.nodes)
        with self._tags, ThreadPoolExecutor(GROUPS_AT_ONCE) as pool:
            list(pool.map(self.one, wanted))

    def one(self, group: Group) -> None:
        """After any error it sets nodes DOWN that were not launched: Slurm would show them as powering up until its
        timeout."""
        left = list(group.nodes)
        together = group.job_id is not None

        def keep(instances: Mapping[str, ec2.Instance]) -> None:
            left[:] = [node for node in left if node not in instances]
            self._keep(group, instances)

        try:
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
                        paid, usable, keep, together=together, wanted=self._wanted, patience=patience
                    )
                    patience = found.patience if found.is_abandoned else None
                if found.left or not left:
                    if not self._waits(group.partition, found, left, since):
                        return
                elif not self._waits_at_limit(room.why, left, since):
                    return
        except Exception as error:
            self._refuse(left, brief(error))

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
            left[:] = self._still_wanted(left)
        return []

    def _waits(self, partition: str, found: launch.Launched, left: list[str], since: float) -> bool:
        """Waits until the launch may be repeated, and drops nodes that are no longer wanted. False if there is nothing
        to wait for; then it has set the remaining nodes DOWN."""
        turns = shortage.Turns(partition, self._launcher.clock)
        if not found.left:
            turns.succeeded()
            return False
        if found.is_abandoned or self._launcher.wait_for_room(client("ec2"), found, since):
            left[:] = self._still_wanted(left)
            return bool(left)
        count(partition, found)
        if found.lacks_capacity and self._launcher.clock() - since < ASK_S:
            turns.failed()
            self._wait_for_turn(turns, found.why, left)
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
        left[:] = self._still_wanted(left)
        self._read_again()
        return bool(left)

    def _read_again(self) -> None:
        """`gpucluster up` may have raised a limit since, or given the partition another Capacity Block. The bundle of
        another release may have another form: then the launch goes by what it has read."""
        with self._reading:
            self._templates.clear()
            try:
                self._cluster = self._load()
            except (OSError, KeyError, TypeError, ValueError) as error:
                log.warning("the newest bundle cannot be read: %s", error)
            self._limits = replace(self._limits, cluster=self._cluster)

    def _wait_for_turn(self, turns: shortage.Turns, why: str, left: list[str]) -> None:
        self._launcher.waits(left, f"{why}; the head node retries every {shortage.EVERY_S} s")
        log.info("%s: retries later: %s", ",".join(left), why)
        for seconds in itertools.count(1):
            self._launcher.sleep(1)
            if seconds % shortage.EVERY_S == 0:
                left[:] = self._still_wanted(left)
            if not left or turns.may_call():
                return

    def _still_wanted(self, nodes: Sequence[str]) -> list[str]:
        """Drops nodes that Slurm has set DOWN or is powering down: it may request them again, and another program then
        launches them. Sets nodes DOWN whose job was cancelled: without an instance, Slurm would show them as powering
        up until its timeout."""
        try:
            found = slurm.nodes(nodes)
            idle = [node.name for node in found if _is_asked_for(node) and self._is_idle(node)]
            if idle:
                slurm.set_down(idle, retry.reason("no job waits for it any longer", 0))
        except slurm.SlurmError as error:
            log.warning("%s: still needed: %s", ",".join(nodes), error)
            return list(nodes)
        asked_for = {node.name for node in found if _is_asked_for(node)} - set(idle)
        others = [node for node in nodes if node not in asked_for]
        if others:
            log.info("%s: Slurm no longer powers them up", ",".join(others))
            self._record.done(others)
        return [node for node in nodes if node in asked_for]

    def _wanted(self, nodes: Sequence[str]) -> list[str]:
        """The nodes that `_still_wanted` would keep. It changes nothing, because EC2 may be launching the others."""
        try:
            found = slurm.nodes(nodes)
        except slurm.SlurmError as error:
            log.warning("%s: still needed: %s", ",".join(nodes), error)
            return list(nodes)
        return [node.name for node in found if _is_asked_for(node) and not self._is_idle(node)]

    def _is_idle(self, node: slurm.Node) -> bool:
        return node.has("IDLE") and node.name not in self._cluster.always_on()

    def _templates_of(self, partition: str) -> tuple[fleet.LaunchTemplate, ...]:
        """Reads them once for all groups, because Parameter Store answers at most 40 calls a second for an account."""
        with self._reading:
            if partition not in self._templates:
                self._templates[partition] = fleet.launch_templates(client("ssm"), self._cluster, partition)
            return self._templates[partition]

    def _keep(self, group: Group, instances: Mapping[str, ec2.Instance]) -> None:
        """Records the instances. It terminates instances that cannot become nodes, with all others of their job."""
        try:
            failed = self._assign(instances)
        except Exception as error:
            failed = dict.fromkeys(instances, brief(error))
        if failed and group.job_id is not None:
            failed = dict.fromkeys(instances, next(iter(failed.values())))
        if failed:
            self._end([instances[node] for node in failed])
        for why in dict.fromkeys(failed.values()):
            self._refuse([node for node in failed if failed[node] == why], why)
        kept = [node for node in instances if node not in failed]
        wanted_by = f"job {group.job_id}" if group.job_id is not None else "jobs of one node, or none"
        for node in kept:
            log.info("%s is %s at %s, wanted by %s", node, *_of(instances[node]), wanted_by)
        self._record.done(kept)

    def _assign(self, instances: Mapping[str, ec2.Instance]) -> dict[str, str]:
        """Writes each node's address to the hosted zone and to Slurm, and then tags the instances with their nodes'
        names, for which their boots wait. Returns the nodes for which that failed, and why."""
        launched.write(instances)
        addresses = {node: instance.private_ip or "" for node, instance in instances.items()}
        failed = self._publish_patiently(addresses)
        indexed = [(each.launch_index, node) for node, each in instances.items() if node not in failed]
        values = (
            (value, {node: instances[node].instance_id for node in nodes}) for value, nodes in names.chunks(indexed)
        )
        for unnamed in self._tags.map(lambda each: self._name(*each), values):
            failed |= unnamed
        return failed

    def _name(self, value: str, ids: Mapping[str, str]) -> dict[str, str]:
        """value: of `names`, for the instances of these nodes. Returns the nodes for which that failed, and why. EC2
        rejects a call for all instances if it does not know one of them."""
        try:
            ec2.tag(client("ec2"), ec2.tag_request(list(ids.values()), {names.TAG: value}))
            return {}
        except Exception as error:
            unknown = ec2.unknown_ids(error)
            known = {node: id_ for node, id_ in ids.items() if id_ not in unknown}
            if len(known) in (0, len(ids)):
                return dict.fromkeys(ids, brief(error))
            return self._name(value, known) | {node: brief(error) for node in ids if node not in known}

    def _publish_patiently(self, addresses: Mapping[str, str]) -> dict[str, str]:
        """Tries twice for all nodes together, then for each node separately: many jobs may share a call, and one bad
        node must not fail them all."""
        for _ in range(2):
            try:
                self._publish(addresses)
                return {}
            except Exception as error:
                why, failed = brief(error), dict[str, str]()
                log.warning("the addresses of %s could not be written: %s", ",".join(addresses), why)
        until = self._launcher.clock() + PUBLISH_EACH_S
        for node, address in addresses.items():
            try:
                if self._launcher.clock() < until:
                    self._publish({node: address})
                else:
                    failed[node] = why
            except Exception as error:
                failed[node] = why = brief(error)
        return failed

    def _publish(self, addresses: Mapping[str, str]) -> None:
        """DNS is written first. If that fails, Slurm has no address of an instance that is then terminated."""
        self._records.put(addresses)
        slurm.set_addresses(addresses)

    def _write(self, addresses: Mapping[str, str]) -> None:
        dns.apply(client("route53"), self._zone_id, dns.upsert(self._cluster.zone, addresses))

    @cached_property
    def _zone_id(self) -> str:
        return fleet.hosted_zone_id(client("ssm"), self._cluster)

    def _end(self, instances: Sequence[ec2.Instance]) -> None:
        """If this fails, the instance has no node's name, and reconcile terminates it."""
        try:
            ids = [instance.instance_id for instance in instances]
            ec2.patiently(lambda: ec2.terminate(client("ec2"), ids))
        except AWS_ERRORS as error:
            log.error("%s could not be terminated: %s", " ".join(each.instance_id for each in instances), error)

    def _refuse(self, nodes: Sequence[str], why: str) -> None:
        if not nodes:
            return
        log.error("%s set down: %s", ",".join(nodes), why)
        slurm.set_down(nodes, retry.reason(why, retry.LAUNCH_REFUSED_S))
        self._record.done(nodes)


def _newest_prices() -> dict[str, float]:
    return spending.prices(fleet.NEWEST)


def _is_asked_for(node: slurm.Node) -> bool:
    return node.has("POWERING_UP", "POWER_UP") and not node.has("DOWN", "POWERING_DOWN", "POWER_DOWN")


def _of(instance: ec2.Instance) -> tuple[str, str | None]:
    return instance.instance_id, instance.private_ip


def count(partition: str, found: launch.Launched) -> None:
    for _, error in found.errors:
        refusals.record(partition, error_code(error))


def waiting_jobs(*, again: bool = False) -> list[dict[str, Any]]:
    """Called first, because Slurm may remove the file when it no longer waits for this program. again: the file is
    reconcile's, and nobody else removes it."""
    path = os.environ.get("SLURM_RESUME_FILE")
    if not path:
        return []
    jobs: list[dict[str, Any]] = json.loads(Path(path).read_text()).get("jobs", [])
    if again:
        Path(path).unlink()
    return jobs


def main() -> None:
    is_again = sys.argv[2:] == ["again"]
    jobs, nodes = waiting_jobs(again=is_again), slurm.expand(sys.argv[1])
    start_logging()
    record = in_flight.Record(nodes, jobs=jobs, again=is_again)
    if len(record.mine) < len(nodes):
        log.warning("another program launches %s", ",".join(node for node in nodes if node not in record.mine))
    try:
        cluster = fleet.load()
        launcher = launch.Launcher(cluster, f"{time.time_ns()}", lambda: client("ec2", attempts=1), waits=record.waits)
        Resume(cluster, launcher, record).run(groups(cluster, record.mine, jobs))
    finally:
        record.close()


if __name__ == "__main__":
    main()
