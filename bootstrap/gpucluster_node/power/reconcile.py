"""Keeps Slurm's nodes consistent with EC2's instances, for as long as the head node runs.

`decide` compares the two by the tables in `states`, and returns actions; `act` executes them. Some states are normal
between two steps of a launch, such as a node that powers up and has no instance yet. They lead to an action only
after a while: `Seen` remembers since when they have lasted.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from functools import cache, partial

from gpucluster_node import dns, ec2, fleet, retry, slurm, states
from gpucluster_node.aws import AWS_ERRORS, client
from gpucluster_node.power import (
    announced,
    booting,
    budget_stop,
    ended,
    failing,
    journal,
    labels,
    last_launches,
    lifetimes,
    observation,
    outdated,
    requeued,
    spending,
    switches,
)

log = logging.getLogger("reconcile")
INTERVAL_S = 5
SOON_S = 2
GONE = retry.gone()
NOT_LAUNCHED = retry.reason("EC2 lists no instance of this node since its launch began", retry.INSTANCE_GONE_S)
OLD = "launched from an older template than the partition's current one"


@dataclass(frozen=True)
class Action:
    """verb: down | power_up | power_down_asap | power_down_force | resume (of a node), terminate (of an instance),
    start_now (of a job)."""

    verb: str
    name: str
    reason: str = ""
    terminated: bool = False
    """So is the node's instance. One that is shutting down can still end its processes."""


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


def decide(snapshot: observation.Snapshot, seen: Seen) -> list[Action]:
    seen.begin(snapshot.now)
    about_nodes = (_about_node(snapshot, node, seen) for node in snapshot.nodes)
    about_instances = (_about_instance(snapshot, instance, seen) for instance in snapshot.instances)
    return [action for action in (*about_nodes, *about_instances) if action]


def _about_node(snapshot: observation.Snapshot, node: slurm.Node, seen: Seen) -> Action | None:
    state = snapshot.of_node(node)
    rule = states.NODE.rule(*state)
    if not _applies(rule, node.name, seen):
        return None
    reason = _reason(rule, state, snapshot.own.get(node.name))
    terminated = rule.action == "down" and snapshot.ended.get(node.name) == "terminated"
    return Action(rule.action, node.name, reason, terminated)


def _reason(rule: states.Rule, state: states.Words, instance: ec2.Instance | None) -> str:
    if rule.action == "power_down_asap":
        return OLD
    if rule.action != "down":
        return ""
    if state[:2] == (states.BOOTING, states.NONE):
        return NOT_LAUNCHED  # GONE would get the reason of an earlier instance
    failed = instance.boot_failure if instance and state[1] == states.BOOT_FAILED else None
    return retry.reason(failed, retry.BOOT_FAILED_S) if failed else GONE


def _about_instance(snapshot: observation.Snapshot, instance: ec2.Instance, seen: Seen) -> Action | None:
    rule = states.INSTANCE.rule(*snapshot.of_instance(instance))
    if not _applies(rule, instance.instance_id, seen):
        return None
    return Action(rule.action, instance.instance_id, f"{instance.node or 'it'}: {rule.why}")


def _applies(rule: states.Rule, name: str, seen: Seen) -> bool:
    return bool(rule.action) and (not rule.after or seen.lasts(f"{name} {rule.why}", rule.after))


def explained(actions: Sequence[Action], ask: ended.Ask) -> list[Action]:
    """Adds EC2's reason if an instance is gone. ask: returns the terminated instances of nodes."""
    gone = [action.name for action in actions if action.reason == GONE]
    last = observation.own(ask(gone)) if gone else {}
    return [
        replace(action, reason=retry.gone(last[action.name].ended_by))
        if action.reason == GONE and action.name in last
        else action
        for action in actions
    ]


def act(actions: Sequence[Action]) -> None:
    """One failed action must not block the others."""
    if resumed := [action.name for action in actions if action.verb == "resume"]:
        _try(partial(_resume, resumed), "resume", ",".join(resumed))
    for action in actions:
        if action.verb != "resume":
            _try(partial(_do, action), action.verb, action.name, action.reason)


def _try(do: Callable[[], None], verb: str, name: str, reason: str = "") -> None:
    log.info("%s %s %s", verb, name, reason)
    try:
        do()
    except (*AWS_ERRORS, slurm.SlurmError) as error:
        log.error("%s %s: %s", verb, name, error)


def _resume(names: Sequence[str]) -> None:
    """Asks Slurm again, because the round may have been long, and a user may have drained a node since."""
    now = datetime.now()
    slurm.update([node.name for node in slurm.nodes(names) if _may_resume(node, now)], state="resume")


def _may_resume(node: slurm.Node, now: datetime) -> bool:
    return ended.only_powers_down(node) or (observation.of_slurm(node) == states.DOWN_OFF and retry.is_due(node, now))


def _do(action: Action) -> None:
    if action.verb == "terminate":
        ec2.terminate(client("ec2"), [action.name])
    elif action.verb == "start_now":
        slurm.start_now(action.name)
    elif action.terminated:
        slurm.set_terminated(action.name, action.reason)
    elif action.verb == "down":
        slurm.set_down([action.name], action.reason)
    elif action.reason:
        slurm.update([action.name], state=action.verb, reason=action.reason)
    else:
        slurm.set_state([action.name], action.verb)


def prepare(cluster: fleet.Fleet) -> None:
    """Shortens how long resolvers keep a negative answer of the zone. The cluster also works without this."""
    try:
        dns.shorten_negative_answers(client("route53"), fleet.hosted_zone_id(client("ssm"), cluster))
    except AWS_ERRORS as error:
        log.warning("the zone's SOA record was not changed: %s", error)


@dataclass
class Rounds:
    """What reconcile keeps from one round to the next."""

    cluster: fleet.Fleet
    ledger: spending.Ledger
    announced: announced.Announced
    overspent: budget_stop.BudgetStop
    network: switches.Network
    templates: outdated.Wanted
    labels: labels.Labels
    book: journal.Journal
    failed: failing.Watch = field(default_factory=failing.Watch)
    seen: Seen = field(default_factory=Seen)
    known: ended.Known = field(default_factory=ended.Known)
    own: Mapping[str, ec2.Instance] = field(default_factory=dict)
    """Node -> its instance, in the last round."""

    @classmethod
    def of(cls, cluster: fleet.Fleet, book: journal.Journal) -> Rounds:
        return cls(
            cluster,
            spending.Ledger(cluster, spending.prices(), lifetimes.this_machine()),
            announced.Announced(lambda: client("ec2")),
            budget_stop.BudgetStop(fleet.newest),
            switches.Network(lambda: client("ec2", attempts=1)),
            outdated.Wanted(lambda: client("ssm")),
            labels.Labels(lambda: client("ec2", attempts=1)),
            book,
        )

    def once(self) -> int:
        """Returns the seconds until the next round. An error of our own must not end it, nor the launches."""
        try:
            actions = self.actions()
            act(actions)
            # The jobs of lost nodes are pending now.
            return SOON_S if any(action.verb == "down" for action in actions) else INTERVAL_S
        except (*AWS_ERRORS, slurm.SlurmError) as error:
            log.warning("skipped: %s", error)
        except Exception:
            log.exception("skipped")
        return INTERVAL_S

    def actions(self) -> list[Action]:
        """Returns the actions of the next round. Raises AWS_ERRORS, SlurmError."""
        cluster = self.cluster
        instances = self._instances()
        self.ledger.update(instances, datetime.now(timezone.utc))
        wanted = self.templates.of(cluster, outdated.partitions(cluster, instances))
        launching, calls = self.book.nodes(), self.book.tokens()
        nodes = slurm.nodes()
        _forget_launches(nodes, self.book)
        own = self.own = observation.own(instances, nodes)
        booting.write(booting.booting(nodes, own))
        self.failed.look(nodes, own, failing.utc())
        self.announced.look(nodes, own, datetime.now(timezone.utc))
        self.overspent.look(nodes, own, self.ledger.usd, datetime.now(timezone.utc))
        self.network.look(cluster, nodes, own)
        self.labels.look(cluster, instances)
        booting_or_ending = [each for each in nodes if observation.of_slurm(each) in (states.BOOTING, states.ENDING)]
        launches = last_launches.read(each.name for each in booting_or_ending if each.name not in launching)
        ask = _ask_once(cluster)
        gone = self.known.ended(nodes, instances, ask, launches)
        free = ended.free(nodes, own, ask, launches)
        now = datetime.now()
        snapshot = observation.Snapshot(cluster, nodes, instances, now, wanted, launching, calls, gone, free)
        actions = decide(snapshot, self.seen)
        starts = requeued.to_start(cluster, slurm.requeued(), nodes, datetime.now())
        return explained(actions, ask) + [Action("start_now", job) for job in starts]

    def _instances(self) -> list[ec2.Instance]:
        """While EC2 does not answer, jobs still leave before an end that it has announced."""
        try:
            return ec2.describe(client("ec2"), self.cluster)
        except AWS_ERRORS:
            self.announced.look(slurm.nodes(), self.own, datetime.now(timezone.utc))
            raise


def _forget_launches(nodes: Sequence[slurm.Node], book: journal.Journal) -> None:
    """Forgets nodes that are off. Called before anything slow, and not for nodes that are being launched: a new launch
    must stay recorded."""
    if off := last_launches.recorded() & {node.name for node in nodes if node.has("POWERED_DOWN")}:
        last_launches.forget(off - book.nodes())


def _ask_once(cluster: fleet.Fleet) -> ended.Ask:
    """EC2 answers for all nodes, so it is asked once at most, and only if somebody needs the answer."""
    over = cache(lambda: ec2.describe(client("ec2"), cluster, states=ec2.ENDED_STATES))

    def ask(names: Sequence[str]) -> list[ec2.Instance]:
        wanted = frozenset(names)
        return [each for each in over() if each.node in wanted]

    return ask
