"""Ends the roll-back of an update that has failed: CloudFormation updates the stack only after that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpucluster.cluster import stack
from gpucluster.cluster.progress import Tell
from gpucluster.errors import DeployError

_HINT = "CloudFormation's console shows the stack's events; correct the cause, then run `gpucluster up`"


def end(cloudformation: Any, name: str, tell: Tell, let_finish: Callable[[], None]) -> bool:
    """Returns whether there was one. Resources that cannot be rolled back, such as a grown volume, are skipped: the
    next deployment accepts them, or reports the problem. Raises DeployError.

    CloudFormation chooses them itself, because it refuses to skip resources whose update was only cancelled (API
    reference, ContinueUpdateRollback: ForceRollback). After each attempt, others may fail that depend on them.
    """
    kept: list[str] | None = None
    failed = stack.status(cloudformation, name) == "UPDATE_ROLLBACK_FAILED"
    while stack.status(cloudformation, name) == "UPDATE_ROLLBACK_FAILED":
        skipped = stack.skipped_resources(cloudformation, name)
        if skipped == kept:
            reason = stack.status_reason(cloudformation, name)
            raise DeployError(f"{name}: the last update cannot be rolled back: {reason}", _HINT)
        tell("the last update could not be rolled back: keeping what is stuck, rolling back the rest")
        cloudformation.continue_update_rollback(StackName=name, ForceRollback=True)
        let_finish()
        kept = skipped
        if now := stack.skipped_resources(cloudformation, name):
            tell(f"kept as the last update left it: {' '.join(now)}")
    return failed
