"""Where in EC2's network the nodes are: DescribeInstanceTopology, kept in each node's field Extra in Slurm.

Extra is `nn-1/nn-2/nn-3`, the instance's network nodes from the top layer to the lowest. Slurm saves it with its state
and does nothing with it; any user may read it with `scontrol show node`.

EC2 answers only for running instances, which nodes are about a minute before they join. Its limit is one call a second
for an account, so a round of reconcile makes at most one call.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gpucluster_node import ec2, fleet, slurm
from gpucluster_node.aws import AWS_ERRORS, brief

log = logging.getLogger("topology")
PER_CALL = 20
"""An answer of one page: EC2 takes 100 ids, and no document says whether its pages of 20 apply to them too."""
AGAIN_S = 60.0
"""The pause after an error, which doubles with each further one, and the pause before EC2 is asked again about an
instance without a place."""
LONGEST_S = 3600.0
TRIES = 3
_PATH = re.compile(r"nn-\w+(/nn-\w+)*")

Path = tuple[str, ...]
"""Network nodes from the top layer to the lowest."""


def describe_request(instance_ids: Sequence[str]) -> dict[str, Any]:
    """Without MaxResults, which EC2 refuses beside ids."""
    return {"InstanceIds": list(instance_ids)}


def parse(answer: Mapping[str, Any]) -> dict[str, Path]:
    """By instance. Those of other types have no network nodes, or are missing, and so are those that do not run."""
    return {each["InstanceId"]: tuple(each.get("NetworkNodes") or ()) for each in answer.get("Instances", ())}


def noted(node: slurm.Node) -> Path:
    """The place in the node's Extra; empty if there is none, or another text."""
    return tuple(node.extra.split("/")) if _PATH.fullmatch(node.extra) else ()


class Topology:
    """Never raises an error of EC2 or of Slurm: a cluster works without it."""

    def __init__(self, client: Callable[[], Any], clock: Callable[[], float] = time.monotonic) -> None:
        self._client, self._clock = client, clock
        self._failures, self._not_before = 0, 0.0
        self._known: dict[str, str] = {}
        """Node -> the instance that its Extra is of. Empty after a restart, so that all are asked about again."""
        self._tries: dict[str, tuple[int, float]] = {}
        """Instance without a place -> how often EC2 was asked, and when it may be asked again."""

    def look(self, cluster: fleet.Fleet, nodes: Sequence[slurm.Node], newest: Mapping[str, ec2.Instance]) -> None:
        """newest: node -> its newest instance."""
        live = {name: each.instance_id for name, each in newest.items()}
        try:
            self._forget(nodes, live)
            asked = [node for node in nodes if self._is_new(cluster, node.name, newest.get(node.name))][:PER_CALL]
            if asked and self._clock() >= self._not_before:
                self._ask({live[node.name]: node.name for node in asked})
        except slurm.SlurmError as error:
            log.warning("skipped: %s", error)

    def _forget(self, nodes: Sequence[slurm.Node], live: Mapping[str, str]) -> None:
        """Clears the topology of instances that are gone."""
        gone = {name for name, instance_id in self._known.items() if live.get(name) != instance_id}
        left = [node.name for node in nodes if noted(node) and (node.name in gone or node.name not in live)]
        if left:
            slurm.update(left, extra="")
        self._known = {name: each for name, each in self._known.items() if name not in gone}
        instances = set(live.values())
        self._tries = {each: tries for each, tries in self._tries.items() if each in instances}

    def _is_new(self, cluster: fleet.Fleet, node: str, instance: ec2.Instance | None) -> bool:
        """Whether EC2 should be asked about the instance now."""
        partition = cluster.partition_of(node)
        if not (partition and partition.topology and instance and instance.state == "running"):
            return False
        due = self._tries.get(instance.instance_id, (0, 0.0))[1]
        return node not in self._known and self._clock() >= due

    def _ask(self, asked: Mapping[str, str]) -> None:
        """asked: instance -> node."""
        try:
            answer = self._client().describe_instance_topology(**describe_request(list(asked)))
        except AWS_ERRORS as error:
            pause_s = min(AGAIN_S * 2**self._failures, LONGEST_S)
            self._failures, self._not_before = self._failures + 1, self._clock() + pause_s
            log.warning(
                "EC2 did not report the topology of %d instances, next try in %.0f s: %s",
                len(asked),
                pause_s,
                brief(error),
            )
            return
        self._failures = 0
        found = parse(answer)
        by_path: dict[Path, list[str]] = {}
        for instance_id in asked:
            by_path.setdefault(found.get(instance_id, ()), []).append(instance_id)
        for path, instances in by_path.items():
            settled = instances if path else [each for each in instances if self._gives_up(each)]
            if path:
                slurm.update([asked[each] for each in instances], extra="/".join(path))
            self._known |= {asked[each]: each for each in settled}

    def _gives_up(self, instance_id: str) -> bool:
        tries = self._tries.get(instance_id, (0, 0.0))[0] + 1
        self._tries[instance_id] = (tries, self._clock() + AGAIN_S)
        return tries >= TRIES
