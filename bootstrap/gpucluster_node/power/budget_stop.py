"""Ends the running nodes once the month's budget is spent, if `budget.at_limit` is stop-nodes.

Their jobs get the `signal` that they requested, are requeued, and wait: launches stop too (`limits`). Nodes of Capacity
Blocks and reservations stay: AWS bills them whether they run or not.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from gpucluster_node import ec2, ends, fleet, scripts, slurm, states
from gpucluster_node.power import observation

log = logging.getLogger("budget_stop")
LONGEST_NOTICE = timedelta(minutes=10)
"""Nodes cost money meanwhile. A job that asked for its signal earlier gets it so long before the end."""
SAVES = timedelta(minutes=15)
"""How long after the end a node stays on which an epilog still saves a job's files. Epilogs have no limit."""
BILLED_ANYWAY = ("capacity-block", "reservation")

InService = tuple[slurm.Node, ec2.Instance]


@dataclass
class BudgetStop:
    """Kept from one round to the next."""

    newest: Callable[[], fleet.Fleet]
    """Returns what the cluster is now: `gpucluster up` may have raised the limit since this program began."""
    _ends: dict[str, ends.End] = field(default_factory=dict)
    """By instance id. Nodes that join later have an end of their own."""
    _asked: dict[str, str] = field(default_factory=dict)
    """Instance id -> the state that Slurm was asked for."""
    _jobs: dict[str, ends.Watch] = field(default_factory=dict)
    """Job and run -> the watch that signals and requeues it, once for all of its nodes."""

    def look(self, nodes: Sequence[slurm.Node], own: Mapping[str, ec2.Instance], usd: float, now: datetime) -> None:
        """`own`: node -> its instance. `usd`: what the nodes have cost this month."""
        try:
            cluster = self.newest()
            limit = cluster.monthly_usd
            if not cluster.stops_nodes or limit is None or usd < limit:
                self._ends, self._asked, self._jobs = {}, {}, {}
                return
            ending = [(node, own[node.name]) for node in nodes if node.name in own and _is_ended(cluster, node)]
            if ending:
                jobs = slurm.running()
                self._plan(ending, jobs, limit, usd, now)
                self._warn_jobs(ending, jobs, now)
                self._end(ending, cluster.always_on(), now)
        except (OSError, KeyError, TypeError, ValueError, slurm.SlurmError) as error:
            log.warning("will look again: %s", error)

    def _plan(
        self, ending: Sequence[InService], jobs: Sequence[slurm.Running], limit: float, usd: float, now: datetime
    ) -> None:
        new = {instance.instance_id: node.name for node, instance in ending if instance.instance_id not in self._ends}
        if not new:
            return
        theirs = [job for job in jobs if not job.nodes.isdisjoint(new.values())]
        asked = (scripts.signal_before(scripts.text(job)) for job in theirs)
        at = now + min(max([ends.SIGNAL_BEFORE, *asked]), LONGEST_NOTICE)
        why = f"the budget of {limit:g} USD a month is reached: it is terminated at {ends.utc(at)}"
        log.warning("%s: the nodes have cost %.2f USD this month; %s", ",".join(new.values()), usd, why)
        self._ends |= dict.fromkeys(new, ends.End(at, why, timedelta.max, of_all=True))

    def _end(self, ending: Sequence[InService], always_on: Collection[str], now: datetime) -> None:
        """Until its end, a node that is always on may serve a file system, and one that somebody has drained stays so.
        The others get no further job, and end with their last one."""
        wanted: dict[tuple[str, ends.End], list[InService]] = {}
        for node, instance in ending:
            end = self._ends[instance.instance_id]
            saves = node.has("COMPLETING") and now < end.at + SAVES
            if now >= end.at and not saves:
                wanted.setdefault(("power_down_force", end), []).append((node, instance))
            elif node.name not in always_on and not node.has("DRAIN"):
                wanted.setdefault(("power_down_asap", end), []).append((node, instance))
        for (state, end), these in wanted.items():
            new = [(node, instance) for node, instance in these if self._asked.get(instance.instance_id) != state]
            if new:
                slurm.update([node.name for node, _ in new], state=state, reason=end.words)
                self._asked |= {instance.instance_id: state for _, instance in new}

    def _warn_jobs(self, ending: Sequence[InService], jobs: Sequence[slurm.Running], now: datetime) -> None:
        by_node = {node.name: self._ends[instance.instance_id] for node, instance in ending}
        for job in jobs:
            if mine := sorted(job.nodes & by_node.keys(), key=lambda name: (by_node[name].at, name)):
                watch = self._jobs.setdefault(job.run, ends.Watch(mine[0]))
                watch.before(by_node[mine[0]], now, [job], drain=False)


def _is_ended(cluster: fleet.Fleet, node: slurm.Node) -> bool:
    partition = cluster.partition_of(node.name)
    is_billed_anyway = partition is not None and partition.purchase in BILLED_ANYWAY
    return not is_billed_anyway and observation.of_slurm(node) in states.IN_SERVICE
