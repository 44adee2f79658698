"""Counts how often the head node was replaced without a change of the cluster file: after a loss, or on purpose.

The count is in cdk.context.json, where each synthesis reads it, also that of a plain `cdk deploy`. The stack has it
too, for checkouts without the entry.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpucluster import updates
from gpucluster.cluster import cdk, stack
from gpucluster.errors import DeployError

AT_REST = ("CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE")
"""Statuses in which the stack matches its template."""


@dataclass(frozen=True)
class Replacements:
    config_file: Path
    cluster: str
    key: str
    """Key of the entry in cdk.context.json."""
    cloudformation: Any

    def here(self) -> int:
        return int(cdk.pinned_for(self.config_file).get(self.key, 0))

    def deployed(self) -> int:
        return updates.head_replacements(stack.template_metadata(self.cloudformation, self.cluster))

    def follow(self, *, one_more: bool) -> None:
        """Makes the next deployment keep the head node or replace it."""
        here = self.here()
        wanted = max(here, self.deployed()) + one_more
        if wanted != here:
            self._write(wanted)

    @contextmanager
    def unless_it_fails(self) -> Iterator[None]:
        """Restores the count if the deployment in the body fails: the head node was kept, and no later deployment may
        replace it. `awaited` handles a CloudFormation that still works then, or could not roll back."""
        try:
            yield
        except DeployError:
            if stack.status(self.cloudformation, self.cluster) in AT_REST:
                self._write(self.deployed())
            raise

    def awaited(self) -> str:
        """The key of the entry if it makes the next deployment replace the head node; empty otherwise."""
        return self.key if self.here() > self.deployed() else ""

    def _write(self, number: int) -> None:
        path = cdk.context_beside(self.config_file)
        others = {key: value for key, value in cdk.pinned(path).items() if key != self.key}
        cdk.write_context(path, {**others, **({self.key: number} if number else {})})
