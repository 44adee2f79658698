"""Stack policies: which updates of which resources they allow."""

from __future__ import annotations

import json

from localcloud.cloudformation.plan import ResourceChange
from localcloud.identity import permissions


def denial(policy: str, change: ResourceChange) -> str | None:
    """Why the policy refuses a change, or None. A policy denies everything that it does not allow."""
    action = _action(change)
    if action is None:
        return None
    resource = f"LogicalResourceId/{change.logical_id}"
    context = {"ResourceType": (change.resource_type,)}
    decision = permissions.evaluate([json.loads(policy)], action, resource, context)
    if decision == permissions.ALLOWED:
        return None
    verb = "denies" if decision == permissions.EXPLICIT_DENY else "does not allow"
    return f"Action denied by stack policy: it {verb} [{action}] for resource [{resource}]"


def _action(change: ResourceChange) -> str | None:
    if change.action == "Remove":
        return "Update:Delete"
    if change.action == "Add":
        return None
    return "Update:Replace" if change.replacement == "True" else "Update:Modify"
