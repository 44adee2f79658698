"""What keys must satisfy together. Offline: nothing here asks AWS.

A rule is a generator of findings. Where it reads a value that was refused already, it stops (NotValidated) and the others go
on, so a rule looks at one thing only. To add one: write it in the file of its section and name it in that file's RULES.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpucluster.config.checks import cluster, partitions, storage
from gpucluster.config.document import Finding
from gpucluster.config.models import ClusterConfig, NotValidated


def check(config: ClusterConfig) -> Iterator[Finding]:
    for rules in (cluster.findings(config), partitions.findings(config), storage.findings(config)):
        for rule in rules:
            try:
                yield from rule
            except NotValidated:
                continue
