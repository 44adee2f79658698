"""Finds nodes launched from an old version of their partition's template. They are terminated after their jobs.

A template's version only increases when its content has changed: the image, the interfaces, the purchase option. A new
bundle changes no template.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from gpucluster_node import ec2, fleet
from gpucluster_node.aws import AWS_ERRORS

log = logging.getLogger("outdated")
REFRESH_S = 60.0
"""Parameter Store answers 40 calls a second for the whole account, and a cluster may have 50 partitions."""

Template = tuple[str, str]
"""Id and version."""


class Wanted:
    """Each partition's current templates, read again after a while."""

    def __init__(self, ssm: Callable[[], Any], clock: Callable[[], float] = time.monotonic) -> None:
        self._ssm, self._clock = ssm, clock
        self._read: dict[str, tuple[float, frozenset[Template]]] = {}

    def of(self, cluster: fleet.Fleet, partitions: Iterable[str]) -> dict[str, frozenset[Template]]:
        return {name: self._templates(cluster, name) for name in dict.fromkeys(partitions)}

    def _templates(self, cluster: fleet.Fleet, partition: str) -> frozenset[Template]:
        read_at, found = self._read.get(partition, (float("-inf"), frozenset()))
        if self._clock() - read_at >= REFRESH_S:
            found = self._ask(cluster, partition) or found
            self._read[partition] = (self._clock(), found)
        return found

    def _ask(self, cluster: fleet.Fleet, partition: str) -> frozenset[Template]:
        """Empty if Parameter Store does not answer: this check can wait, the head node's other checks cannot."""
        try:
            launched_from = fleet.launch_templates(self._ssm(), cluster, partition)
        except AWS_ERRORS as error:
            log.warning("cannot read the launch templates of %s: %s", partition, error)
            return frozenset()
        return frozenset((each.launch_template_id, each.version) for each in launched_from)


def partitions(cluster: fleet.Fleet, instances: Collection[ec2.Instance]) -> list[str]:
    """Partitions that have an instance; the templates of others are not needed."""
    of = (cluster.partition_of(instance.node) for instance in instances if instance.node)
    return list(dict.fromkeys(partition.name for partition in of if partition))


def is_outdated(instance: ec2.Instance, partition: str, wanted: Mapping[str, Collection[Template]]) -> bool:
    """False if the instance's template, or the partition's current one, is not known."""
    known = wanted.get(partition)
    return bool(known) and instance.template is not None and instance.template not in (known or ())
