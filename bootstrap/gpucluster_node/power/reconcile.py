"""Keeps Slurm's nodes consistent with EC2's instances, for as long as the head node runs.

`decide` compares the two and returns actions; `act` executes them. A state that may be normal between two steps of
another program (a node powering up whose instance is not launched yet) counts only after it has lasted a while: `Seen`
remembers since when.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from gpucluster_node import dns, ec2, fleet, retry, slurm
from gpucluster_node.aws import AWS_ERRORS, client
from gpucluster_node.log import start_logging
from gpucluster_node.power import in_flight, outdated

log = logging.getLogger("reconcile")
INTERVAL_S = 5
LAUNCH_GRACE = timedelta(seconds=90)
"""Counted while no ResumeProgram has the node: it may not have started, or have ended, and EC2 shows a launch later."""
GONE_GRACE = timedelta(seconds=20)
"""DescribeInstances may omit an instance that it returned before (elifesciences/builder#88)."""
ORPHAN_GRACE = timedelta(seconds=60)
CLOCKS_DIFFER = timedelta(seconds=60)
"""Difference between EC2's clock, which gives an instance's launch time, and the head node's."""
GONE = retry.gone()
_CHANGING = ("POWERING_UP", "POWER_UP", "POWERING_DOWN", "POWER_DOWN", "POWERED_DOWN")


@dataclass(frozen=True)
class Action:
    """verb: down | power_up | power_down_asap | power_down_force | resume (of a node), terminate (of an instance)."""

    verb: str
    name: str
    reason: str = ""


@dataclass
class Seen:
    """How long a condition has held without interruption."""

    since: dict[str, datetime] = field(default_factory=dict)
    now: datetime = datetime.min
    _current: set[str] = field(default_factory=set)

    def begin(self, now: datetime) -> None:
        self.since = {key: since for key, since in self.since.items() if key in self._current}
        self._current, self.now = set(), now

    def lasts(self, key: str, grace: timedelta) -> bool:
        self._current.add(key)
        return self.now - self.since.setdefault(key, self.now) >= grace


def decide(
    cluster: fleet.Fleet,
    nodes: Sequence[slurm.Node],
    instances: Sequence[ec2.Instance],
    seen: Seen,
    now: datetime,
    wanted: Mapping[str, Collection[outdated.Template]] | None = None,
    launching: Collection[str] = (),
    since: datetime | None = None,
) -> list[Action]:
    """now: in the head node's time zone, like Slurm's times. wanted: partition -> its current templates. launching:
    nodes that ResumePrograms are working on. Those are left to them, and so are instances without a name that started
    `since` the oldest of the programs began."""
    seen.begin(now)
    newest = _newest(instances)
    ours = [node for node in nodes if node.name not in launching]
    actions = [action for node in ours if (action := _about_node(cluster, node, newest.get(node.name), seen))]
    told = {action.name for action in actions}
    actions += [
        Action("power_down_asap", node.name, "launched from an older template than the partition has now")
        for node in nodes
        if node.name not in told and _is_outdated(cluster, node, newest.get(node.name), wanted or {})
    ]
    settled = [each for each in instances if not (launching and _is_launched(each, launching, since))]
    return actions + list(_orphans({node.name: node for node in nodes}, settled, newest, seen))


def _is_launched(instance: ec2.Instance, launching: Collection[str], since: datetime | None) -> bool:
    """Whether a ResumeProgram may be working on it."""
    if instance.node is None:
        return since is None or instance.launch_time >= since - CLOCKS_DIFFER
    return instance.node in launching


def _newest(instances: Sequence[ec2.Instance]) -> dict[str, ec2.Instance]:
    return {each.node: each for each in sorted(instances, key=lambda each: each.launch_time) if each.node}


def _about_node(cluster: fleet.Fleet, node: slurm.Node, instance: ec2.Instance | None, seen: Seen) -> Action | None:
    if node.has("DOWN"):
        return _retry(node, seen)
    if node.has("POWERING_DOWN", "POWER_DOWN"):
        return None
    if node.has("POWERED_DOWN"):
        wanted = node.name in cluster.always_on() and not node.has("POWERING_UP", "POWER_UP", "DRAIN")
        return Action("power_up", node.name) if wanted else None
    if instance is None:
        return _gone(node, seen)
    # A node that answers has recovered from its boot's error.
    if instance.boot_failure and node.has("POWERING_UP", "POWER_UP", "NOT_RESPONDING"):
        return Action("down", node.name, retry.reason(instance.boot_failure, retry.BOOT_FAILED_S))
    return None


def _is_outdated(
    cluster: fleet.Fleet,
    node: slurm.Node,
    instance: ec2.Instance | None,
    wanted: Mapping[str, Collection[outdated.Template]],
) -> bool:
    """Nodes in service. A booting node is checked when it is up; one that a user drained is left alone."""
    partition = cluster.partition_of(node.name)
    if not instance or not partition or node.has("DOWN", "DRAIN", "NOT_RESPONDING", *_CHANGING):
        return False
    return outdated.is_outdated(instance, partition.name, wanted)


def _retry(node: slurm.Node, seen: Seen) -> Action | None:
    """First the node is powered down, which terminates its instance if there is one; then Slurm may use it again."""
    if not retry.is_due(node, seen.now) or node.has("POWERING_DOWN", "POWER_DOWN"):
        return None
    return Action("resume" if node.has("POWERED_DOWN") else "power_down_force", node.name)


def _gone(node: slurm.Node, seen: Seen) -> Action | None:
    launching = node.has("POWERING_UP", "POWER_UP")
    if not seen.lasts(f"no instance for {node.name}", LAUNCH_GRACE if launching else GONE_GRACE):
        return None
    return Action("down", node.name, GONE)


def _orphans(
    nodes: dict[str, slurm.Node], instances: Sequence[ec2.Instance], newest: dict[str, ec2.Instance], seen: Seen
) -> Iterator[Action]:
    for instance in instances:
        why = _orphan(instance, nodes.get(instance.node or ""), newest)
        if why and seen.lasts(f"{instance.instance_id} {why}", ORPHAN_GRACE):
            yield Action("terminate", instance.instance_id, why)


def _orphan(instance: ec2.Instance, node: slurm.Node | None, newest: dict[str, ec2.Instance]) -> str | None:
    """Why the instance is not needed; None if it is."""
    if instance.node is None:
        return "has no node's name"
    if node is None:
        return f"{instance.node} is not a node of this cluster"
    if newest[instance.node] is not instance:
        return f"{instance.node} has a newer instance"
    if node.has("POWERED_DOWN") and not node.has("POWERING_UP", "POWER_UP"):
        return f"{instance.node} is powered down"
    return None


def explained(actions: Sequence[Action], ended: Callable[[Sequence[str]], Sequence[ec2.Instance]]) -> list[Action]:
    """Adds EC2's reason if an instance is gone. ended: returns the terminated instances of nodes."""
    gone = [action.name for action in actions if action.reason == GONE]
    last = _newest(ended(gone)) if gone else {}
    return [
        replace(action, reason=retry.gone(last[action.name].ended_by))
        if action.reason == GONE and action.name in last
        else action
        for action in actions
    ]


def act(actions: Sequence[Action]) -> None:
    """One failed action must not block the others."""
    for action in actions:
        log.info("%s %s %s", action.verb, action.name, action.reason)
        try:
            _do(action)
        except (*AWS_ERRORS, slurm.SlurmError) as error:
            log.error("%s %s: %s", action.verb, action.name, error)


def _do(action: Action) -> None:
    if action.verb == "terminate":
        ec2.terminate(client("ec2"), [action.name])
    elif action.verb == "down":
        slurm.set_down([action.name], action.reason)
    elif action.reason:
        slurm.update([action.name], state=action.verb, reason=action.reason)
    else:
        slurm.set_state([action.name], action.verb)


def prepare(cluster: fleet.Fleet) -> None:
    """Better done once at start, but not required."""
    try:
        dns.shorten_negative_answers(client("route53"), fleet.hosted_zone_id(client("ssm"), cluster))
    except AWS_ERRORS as error:
        log.warning("the zone's SOA record was not changed: %s", error)


def main() -> None:
    start_logging()
    cluster, seen = fleet.load(), Seen()
    prepare(cluster)
    templates = outdated.Wanted(lambda: client("ssm"))
    while True:
        try:
            instances = ec2.describe(client("ec2"), cluster)
            wanted = templates.of(cluster, outdated.partitions(cluster, instances))
            launching, since = in_flight.nodes(), in_flight.since()
            actions = decide(cluster, slurm.nodes(), instances, seen, datetime.now(), wanted, launching, since)
            act(explained(actions, lambda nodes: ec2.describe(client("ec2"), cluster, nodes, ec2.ENDED_STATES)))
        except (*AWS_ERRORS, slurm.SlurmError) as error:
            log.warning("skipped: %s", error)
        time.sleep(INTERVAL_S)


if __name__ == "__main__":
    main()
