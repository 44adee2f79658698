"""Translates the states that Slurm and EC2 report of a node or an instance into the words of `states`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property, lru_cache

from gpucluster_node import ec2, fleet, retry, slurm, states
from gpucluster_node.power import outdated

_BUSY = ("ALLOCATED", "MIXED", "COMPLETING")
"""Slurm powers such a node down only after its jobs. From power_down_asap (node_mgr.c: update_node) until then it is
POWER_DOWN, and its instance can fail like any other (power_save.c: _do_power_work)."""
_WAKING = ("POWERING_UP", "POWER_UP")


@dataclass(frozen=True)
class Snapshot:
    """The state of all nodes and instances at one moment. now: in the head node's time zone, like Slurm's times.
    wanted: partition -> its current templates. launching: nodes that launches have; calls: the tokens of their
    calls. ended: nodes whose instance EC2 lists as shutting-down or terminated, with that state. free: nodes
    that Slurm powers down and whose instance is over."""

    cluster: fleet.Fleet
    nodes: Sequence[slurm.Node]
    instances: Sequence[ec2.Instance]
    now: datetime
    wanted: Mapping[str, Collection[outdated.Template]] = field(default_factory=dict)
    launching: Collection[str] = ()
    calls: Collection[str] = ()
    ended: Mapping[str, str] = field(default_factory=dict)
    free: Collection[str] = ()

    @cached_property
    def own(self) -> dict[str, ec2.Instance]:
        return own(self.instances, self.nodes)

    @cached_property
    def _by_name(self) -> dict[str, slurm.Node]:
        return {node.name: node for node in self.nodes}

    def of_node(self, node: slurm.Node) -> states.Words:
        return of_slurm(node), self._of_ec2(node), self._of_node(node)

    def _of_ec2(self, node: slurm.Node) -> str:
        instance = self.own.get(node.name)
        if instance is None:
            return states.ENDED if node.name in self.ended else states.NONE
        if instance.boot_failure:
            return states.BOOT_FAILED
        partition = self.cluster.partition_of(node.name)
        old = partition is not None and outdated.is_outdated(instance, partition.name, self.wanted)
        return states.OUTDATED if old else states.LIVE

    def _of_node(self, node: slurm.Node) -> str:
        if node.name in self.launching:
            return states.LAUNCHING
        if node.has("DOWN") and retry.is_due(node, self.now):
            return states.DUE
        if node.name in self.free:
            return states.FREE
        always_on = node.name in self._always_on and not node.has("DRAIN")
        return states.ALWAYS_ON if always_on else states.ELSE

    @cached_property
    def _always_on(self) -> frozenset[str]:
        return frozenset(self.cluster.always_on())

    def of_instance(self, instance: ec2.Instance) -> states.Words:
        node = self._by_name.get(instance.node or "")
        return self._place(instance), of_slurm(node) if node else states.NO_NODE, self._of_launch(instance)

    def _place(self, instance: ec2.Instance) -> str:
        if instance.node is None:
            return states.UNNAMED
        if instance.node not in self._by_name:
            return states.UNKNOWN_NODE
        return states.OWN if self.own[instance.node] is instance else states.SPARE

    def _of_launch(self, instance: ec2.Instance) -> str:
        """EC2 shows an instance with the token of the call that launched it, also before it has a name."""
        if instance.token in self.calls:
            return states.BY_PROGRAM
        return states.FROM_BEFORE if instance.node in self.launching else states.SETTLED


def of_slurm(node: slurm.Node) -> str:
    return _of_states(node.states)


@lru_cache(maxsize=256)
def _of_states(found: frozenset[str]) -> str:
    """Many nodes have the same, and each round asks for each node several times."""
    node = slurm.Node("", found)
    ending = node.has("POWERING_DOWN") or (node.has("POWER_DOWN") and not node.has(*_BUSY))
    if node.has("DOWN"):
        if node.has("POWERING_DOWN", "POWER_DOWN"):
            return states.DOWN_ENDING
        return states.DOWN_OFF if node.has("POWERED_DOWN") else states.DOWN
    if ending:
        return states.ENDING
    if node.has("POWERED_DOWN"):
        return states.ASKED if node.has(*_WAKING) else states.OFF
    return states.BOOTING if node.has(*_WAKING) else _in_service(node)


def _in_service(node: slurm.Node) -> str:
    if node.has("NOT_RESPONDING"):
        return states.SILENT
    if node.has("POWER_DOWN"):
        return states.LAST_JOB
    return states.DRAINED if node.has("DRAIN") else states.UP


def own(instances: Sequence[ec2.Instance], nodes: Sequence[slurm.Node] = ()) -> dict[str, ec2.Instance]:
    """Node -> its instance: the one whose address Slurm has, which its launch has set; else the newest. A user
    may launch another one with the same tags, and a program that was repeated may have launched two."""
    addresses = {node.name: node.address for node in nodes if node.address}

    def order(each: ec2.Instance) -> tuple[bool, datetime]:
        return each.private_ip is not None and each.private_ip == addresses.get(each.node or ""), each.launch_time

    return {each.node: each for each in sorted(instances, key=order) if each.node}
