"""What keys must satisfy together. Offline: nothing here asks AWS.

A rule is a generator of findings. Where it reads a value that was refused already, it stops (NotValidated) and the
others go on, so a rule looks at one thing only. To add one: write it in the file of its section, and name it in that
file's `findings`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TypeVar

from gpucluster.config.checks import cluster, partitions, storage
from gpucluster.config.document import Finding
from gpucluster.config.models import ClusterConfig, NotValidated

T = TypeVar("T")


def check(config: ClusterConfig) -> Iterator[Finding]:
    for section in (cluster, partitions, storage):
        for rule in _sound(section.findings(config)):
            yield from _sound(rule)


def _sound(items: Iterator[T]) -> Iterator[T]:
    """Up to the first value that was refused."""
    with suppress(NotValidated):
        yield from items
