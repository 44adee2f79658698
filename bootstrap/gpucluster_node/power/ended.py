"""Nodes whose instance EC2 says has ended: those need no grace, unlike an instance that an answer merely omits."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gpucluster_node import ec2, slurm


class Known:
    """The last instance of each node that EC2 has shown alive. A name has had others before."""

    def __init__(self) -> None:
        self._ids: dict[str, str] = {}

    def ended(
        self,
        nodes: Sequence[slurm.Node],
        instances: Sequence[ec2.Instance],
        ask: Callable[[Sequence[str]], Sequence[ec2.Instance]],
    ) -> set[str]:
        """instances: all that live. ask: returns the ended instances of nodes; it is called only if one is missing."""
        alive = {
            each.node: each.instance_id for each in sorted(instances, key=lambda each: each.launch_time) if each.node
        }
        missing = [node.name for node in nodes if node.name in self._ids and node.name not in alive and _is_up(node)]
        over = {each.instance_id for each in ask(missing)} if missing else set()
        found = {name for name in missing if self._ids[name] in over}
        self._ids = {name: alive.get(name, self._ids.get(name, "")) for name in {*alive, *missing} - found}
        return found


def _is_up(node: slurm.Node) -> bool:
    """POWER_DOWN is up too: jobs may still run there."""
    return not node.has("DOWN", "POWERING_UP", "POWER_UP", "POWERING_DOWN", "POWERED_DOWN")
