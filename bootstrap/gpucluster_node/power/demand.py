"""Which nodes of a launch that waits Slurm still powers up for a job."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence

from gpucluster_node import fleet, retry, slurm
from gpucluster_node.power import journal

log = logging.getLogger("resume")


class Demand:
    def __init__(
        self, cluster: Callable[[], fleet.Fleet], record: journal.Record, unsure: Collection[str] = ()
    ) -> None:
        """cluster: returns what the cluster is now. unsure: nodes that EC2 may have launched."""
        self._cluster, self._record, self._unsure = cluster, record, unsure

    def still(self, nodes: Sequence[str]) -> list[str]:
        """Drops nodes that Slurm has set DOWN or is powering down: it may request them again, and another launch then
        has them. Sets nodes DOWN whose job was cancelled: without an instance, Slurm would show them as powering
        up until its timeout."""
        try:
            found = slurm.nodes(nodes)
            idle = [node.name for node in found if _is_asked_for(node) and self._is_idle(node)]
            self._cancel(idle)
        except slurm.SlurmError as error:
            log.warning("%s: still needed: %s", ",".join(nodes), error)
            return list(nodes)
        asked_for = {node.name for node in found if _is_asked_for(node)} - set(idle)
        others = [node for node in nodes if node not in asked_for]
        if others:
            log.info("%s: Slurm no longer powers them up", ",".join(others))
            self._record.done(others)
        return [node for node in nodes if node in asked_for]

    def now(self, nodes: Sequence[str]) -> list[str]:
        """The nodes that `still` would keep. It changes nothing, because EC2 may be launching the others."""
        try:
            found = slurm.nodes(nodes)
        except slurm.SlurmError as error:
            log.warning("%s: still needed: %s", ",".join(nodes), error)
            return list(nodes)
        return [node.name for node in found if _is_asked_for(node) and not self._is_idle(node)]

    def _cancel(self, idle: Sequence[str]) -> None:
        unsure = [node for node in idle if node in self._unsure]
        sure = [node for node in idle if node not in self._unsure]
        for nodes, why in (unsure, "no job waits for it any longer"), (sure, retry.UNWANTED):
            if nodes:
                slurm.set_down(nodes, retry.reason(why, 0))

    def _is_idle(self, node: slurm.Node) -> bool:
        return node.has("IDLE") and node.name not in self._cluster().always_on()


def _is_asked_for(node: slurm.Node) -> bool:
    return node.has("POWERING_UP", "POWER_UP") and not node.has("DOWN", "POWERING_DOWN", "POWER_DOWN")
