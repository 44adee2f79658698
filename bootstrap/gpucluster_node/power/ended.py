"""Finds nodes whose instance EC2 lists as ended: they are set DOWN at once. If an answer of EC2 merely omits an
instance, the instance may still run, and its node gets a grace period. Also finds nodes for whose power-down Slurm need
not wait any longer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from gpucluster_node import ec2, retry, slurm, states
from gpucluster_node.power import last_launches, observation

Ask = Callable[[Sequence[str]], Sequence[ec2.Instance]]
"""Returns the ended instances of nodes."""


class Known:
    """Remembers each node's last running instance, because earlier instances had the same name."""

    def __init__(self) -> None:
        self._ids: dict[str, str] = {}

    def ended(
        self,
        nodes: Sequence[slurm.Node],
        instances: Sequence[ec2.Instance],
        ask: Ask,
        launches: Mapping[str, last_launches.Launch],
    ) -> dict[str, str]:
        """Node -> EC2's state of its instance, shutting-down or terminated. instances: all that live. ask: called only
        if one is missing. launches: EC2 may never have listed the instance of a node that boots."""
        alive = {
            each.node: each.instance_id for each in sorted(instances, key=lambda each: each.launch_time) if each.node
        }
        booting = _booting(nodes, launches)
        ids = self._ids | booting
        wanted = {node.name for node in nodes if _is_up(node)} | booting.keys()
        lost = wanted & ids.keys() - alive.keys()
        missing = [node.name for node in nodes if node.name in lost]
        over = {each.instance_id: each.state for each in ask(missing)} if missing else {}
        found = {name: over[ids[name]] for name in missing if ids[name] in over}
        self._ids = {name: alive.get(name, ids.get(name, "")) for name in {*alive, *missing} - found.keys()}
        return found


def _is_up(node: slurm.Node) -> bool:
    """POWER_DOWN is up too: jobs may still run there."""
    return not node.has("DOWN", "POWERING_UP", "POWER_UP", "POWERING_DOWN", "POWERED_DOWN")


def _booting(nodes: Sequence[slurm.Node], launches: Mapping[str, last_launches.Launch]) -> dict[str, str]:
    """Node that boots -> its instance. If Slurm has another address, the record is of an earlier launch."""
    return {
        node.name: launch.instance
        for node in nodes
        if observation.of_slurm(node) == states.BOOTING
        and (launch := launches.get(node.name))
        and launch.address == node.address
    }


def only_powers_down(node: slurm.Node) -> bool:
    """Whether `resume` ends nothing but the power-down. It would also end a DRAIN, FAIL or DOWN that somebody has set
    since the power-down began (NODE_RESUME in node_mgr.c: update_node)."""
    return node.has("POWERING_DOWN") and not node.has("DRAIN", "FAIL", "DOWN")


def free(
    nodes: Sequence[slurm.Node],
    own: Mapping[str, ec2.Instance],
    ask: Ask,
    launches: Mapping[str, last_launches.Launch],
) -> frozenset[str]:
    """Nodes that Slurm only powers down, whose suspend has ended, and which have no instance for certain: EC2
    lists it as terminated, or has refused to launch one. An instance that is shutting down does not count: it may still
    report the end of a job that runs again on the node (job_epilog_complete in Slurm's job_mgr.c)."""
    left = [node for node in nodes if only_powers_down(node) and node.name not in own]
    ending = {node: launch for node in left if (launch := launches.get(node.name)) and launch.suspended}
    had_one = [node.name for node, launch in ending.items() if launch.instance]
    over = {each.instance_id for each in ask(had_one) if each.state == "terminated"} if had_one else set()
    return frozenset(
        node.name
        for node, launch in ending.items()
        if (launch.instance in over if launch.instance else retry.was_refused(node))
    )
