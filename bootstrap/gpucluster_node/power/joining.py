"""Makes launched instances the nodes that Slurm waits for: writes their addresses to DNS and to Slurm, and tags them
with the nodes' names, for which their boots wait."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property

from gpucluster_node import dns, ec2, fleet, names, slurm
from gpucluster_node.aws import AWS_ERRORS, brief, client
from gpucluster_node.power import journal, last_launches
from gpucluster_node.power.groups import Group

log = logging.getLogger("resume")
TAGS_AT_ONCE = 16
PUBLISH_EACH_S = 60.0
"""How long addresses are set node by node after the call for all nodes failed. The nodes' boots wait for it."""


class Joining:
    def __init__(
        self,
        cluster: fleet.Fleet,
        record: journal.Record,
        refuse: Callable[[Sequence[str], str], None],
        clock: Callable[[], float],
    ) -> None:
        """refuse: sets nodes DOWN with a reason. clock: in seconds."""
        self._cluster, self._record, self._refuse, self._clock = cluster, record, refuse, clock
        self._records = dns.Writer(self._write)
        self.tags = ThreadPoolExecutor(TAGS_AT_ONCE)
        """The caller shuts it down."""

    def keep(self, group: Group, instances: Mapping[str, ec2.Instance]) -> None:
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
            made = instances[node]
            log.info("%s is %s at %s, wanted by %s", node, made.instance_id, made.private_ip, wanted_by)
        self._record.done(kept)

    def _assign(self, instances: Mapping[str, ec2.Instance]) -> dict[str, str]:
        """Writes each node's address to the hosted zone and to Slurm, and then tags the instances with their nodes'
        names, for which their boots wait. Returns the nodes for which that failed, and why."""
        last_launches.write(instances)
        addresses = {node: instance.private_ip or "" for node, instance in instances.items()}
        failed = self._publish_patiently(addresses)
        indexed = [(each.launch_index, node) for node, each in instances.items() if node not in failed]
        values = (
            (value, {node: instances[node].instance_id for node in nodes}) for value, nodes in names.chunks(indexed)
        )
        for unnamed in self.tags.map(lambda each: self._name(*each), values):
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
        until = self._clock() + PUBLISH_EACH_S
        for node, address in addresses.items():
            try:
                if self._clock() < until:
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
