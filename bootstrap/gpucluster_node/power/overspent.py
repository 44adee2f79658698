"""Ends the running nodes once the month's budget is spent, if `budget.at_limit` is stop-nodes.

Their jobs get the `signal` that they requested, are requeued, and wait: launches stop too (`limits`). Nodes of Capacity
Blocks, which are paid in advance, stay.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from gpucluster_node import ec2, ends, fleet, scripts, slurm, states
from gpucluster_node.power import words

log = logging.getLogger("overspent")
LONGEST_NOTICE = timedelta(minutes=10)
"""Nodes cost money meanwhile. A job that asked for its signal earlier gets it so long before the end."""


@dataclass
class Overspent:
    """Kept from one round to the next."""

    cluster: fleet.Fleet
    _end: ends.End | None = None
    _watches: dict[str, ends.Watch] = field(default_factory=dict)
    """By instance id: the next instance of the same node is another one."""

    def look(self, nodes: Sequence[slurm.Node], own: Mapping[str, ec2.Instance], usd: float, now: datetime) -> None:
        """`own`: node -> its instance. `usd`: what the nodes have cost this month."""
        limit = self.cluster.monthly_usd
        if not self.cluster.stops_nodes or limit is None or usd < limit:
            self._end, self._watches = None, {}
            return
        ending = [(node, own[node.name]) for node in nodes if node.name in own and self._ends(node)]
        if not ending:
            return
        try:
            jobs = slurm.running()
        except slurm.SlurmError as error:
            log.warning("the jobs are not known: %s", error)
            return
        end = self._end = self._end or _end(limit, usd, now, jobs)
        for node, instance in ending:
            watch = self._watches.setdefault(instance.instance_id, ends.Watch(node.name))
            try:
                watch.before(end, now, [job for job in jobs if node.name in job.nodes])
            except slurm.SlurmError as error:
                log.warning("%s: will look again: %s", node.name, error)

    def _ends(self, node: slurm.Node) -> bool:
        """Slurm powers a node that somebody has drained down by itself (`idle_minutes`)."""
        partition = self.cluster.partition_of(node.name)
        paid = partition is not None and partition.paid_in_advance
        return not paid and words.of_slurm(node) in (states.UP, states.SILENT, states.LAST_JOB)


def _end(limit: float, usd: float, now: datetime, jobs: Sequence[slurm.Running]) -> ends.End:
    asked = (scripts.signal_before(scripts.text(job)) for job in jobs)
    at = now + min(max([ends.SIGNAL_BEFORE, *asked]), LONGEST_NOTICE)
    log.warning("the nodes have cost %.2f of the budget's %g USD this month: they end at %s", usd, limit, ends.utc(at))
    why = f"the budget of {limit:g} USD a month is reached: it is terminated at {ends.utc(at)}"
    return ends.End(at, why, timedelta.max, is_ours=True)
