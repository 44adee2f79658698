"""The instances' names in EC2's console: the tag `Name`, such as GpuCluster-train-7. No program reads it.

The same call gives the instance a value of `names.TAG` of its own. A user can find it by that in EC2's console, and an
older release that is deployed again knows its node: of a shared value it would terminate the instance.

Each instance has another name, so each needs a call. The launch of a thousand nodes does not wait for them: reconcile
sets a few in each of its rounds, a tenth of the calls that EC2 allows an account.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

from gpucluster_node import ec2, fleet, names
from gpucluster_node.aws import AWS_ERRORS

log = logging.getLogger("labels")
AT_ONCE = 5
PAUSE_S = 60.0
"""After a call that failed."""


class Labels:
    def __init__(self, client: Callable[[], Any], clock: Callable[[], float] = time.monotonic) -> None:
        self._client, self._clock = client, clock
        self._set: set[str] = set()
        self._not_before = 0.0

    def look(self, cluster: fleet.Fleet, instances: Sequence[ec2.Instance]) -> None:
        """Never raises an error of AWS. DescribeInstances may show a tag some seconds after it was set."""
        self._set &= {each.instance_id for each in instances}
        if self._clock() < self._not_before:
            return
        wanted = {each.instance_id: (f"{cluster.cluster}-{each.node}", each.node) for each in instances if each.node}
        shown = {each.instance_id: each.label for each in instances}
        missing = [id_ for id_, (label, _) in wanted.items() if shown[id_] != label and id_ not in self._set]
        try:
            for id_ in missing[:AT_ONCE]:
                label, node = wanted[id_]
                tags = {ec2.LABEL_TAG: label, names.TAG: node}
                self._client().create_tags(**ec2.tag_request([id_], tags))
                self._set.add(id_)
        except AWS_ERRORS as error:
            self._not_before = self._clock() + PAUSE_S
            log.info("an instance has no name in EC2's console yet: %s", error)
