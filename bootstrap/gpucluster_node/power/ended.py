"""Finds nodes whose instance EC2 lists as terminated. They are set DOWN at once. If an answer of EC2 merely omits an
instance, the instance may still run, and its node gets a grace period."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gpucluster_node import ec2, slurm


class Known:
    """Remembers each node's last running instance, because earlier instances had the same name."""

    def __init__(self) -> None:
        self._ids: dict[str, str] = {}

    def ended(
        self,
        nodes: Sequence[slurm.Node],
        instances: Sequence[ec2.Instance],
        ask: Callable[[Sequence[str]], Sequence[ec2.Instance]],
    ) -> dict[str, str]:
        """Node -> EC2's state of its instance, shutting-down or terminated. instances: all that live. ask: returns the
        ended instances of nodes; it is called only if one is missing."""
        alive = {
            each.node: each.instance_id for each in sorted(instances, key=lambda each: each.launch_time) if each.node
        }
        missing = [node.name for node in nodes if node.name in self._ids and node.name not in alive and _is_up(node)]
        over = {each.instance_id: each.state for each in ask(missing)} if missing else {}
        found = {name: over[self._ids[name]] for name in missing if self._ids[name] in over}
        self._ids = {name: alive.get(name, self._ids.get(name, "")) for name in {*alive, *missing} - found.keys()}
        return found


def _is_up(node: slurm.Node) -> bool:
    """POWER_DOWN is up too: jobs may still run there."""
    return not node.has("DOWN", "POWERING_UP", "POWER_UP", "POWERING_DOWN", "POWERED_DOWN")
