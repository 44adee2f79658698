"""CloudFormation's data about the cluster's stack. Functions take a boto3 client."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

BOOTSTRAP_STACK = "CDKToolkit"
NOTHING_LEFT = ("CREATE_FAILED", "ROLLBACK_COMPLETE", "ROLLBACK_FAILED", "DELETE_FAILED")
NEVER_LIVE = ("ROLLBACK_COMPLETE", "ROLLBACK_FAILED")
"""After a failed creation: the CDK command line deletes the remains before it creates the stack again."""
DELETED = "DELETE_COMPLETE"
CANCELLED = "cancelled"
"""Part of the reason of a resource that failed only because another one failed: `Resource creation cancelled`."""

SKIPPED = "Resource skipped during UpdateRollback"
"""The reason of a resource that a continued roll-back has skipped (SKIPPED_DURING_UPDATE_ROLLBACK_REASON of the CDK
command line)."""


@dataclass(frozen=True)
class StackEvent:
    id: str
    resource: str
    """The logical id; for the stack's own events, its name."""
    type: str
    status: str
    reason: str


def status(cloudformation: Any, name: str) -> str | None:
    """None if there is no such stack."""
    found = described(cloudformation, name)
    return found.status if found else None


@dataclass(frozen=True)
class Described:
    status: str
    account: str
    """From the stack's ARN; empty if it has none."""
    outputs: dict[str, str]


def described(cloudformation: Any, name: str) -> Described | None:
    """With one call. None if there is no such stack."""
    try:
        found = cloudformation.describe_stacks(StackName=name)["Stacks"][0]
    except cloudformation.exceptions.ClientError as error:
        if "does not exist" in str(error):
            return None
        raise
    if found["StackStatus"] in ("DELETE_COMPLETE", "REVIEW_IN_PROGRESS"):
        return None
    account = found.get("StackId", "").split(":")[4:5]
    return Described(found["StackStatus"], "".join(account), _outputs(found))


def outputs(cloudformation: Any, name: str) -> dict[str, str]:
    return _outputs(cloudformation.describe_stacks(StackName=name)["Stacks"][0])


def _outputs(described: dict[str, Any]) -> dict[str, str]:
    return {output["OutputKey"]: output["OutputValue"] for output in described.get("Outputs", [])}


def template_metadata(cloudformation: Any, name: str) -> dict[str, Any]:
    """Metadata of the stack's current template; after a failed update, of the previous template."""
    found: dict[str, Any] = json.loads(cloudformation.get_template_summary(StackName=name).get("Metadata") or "{}")
    return found


def protected(cloudformation: Any, name: str) -> bool:
    return bool(cloudformation.describe_stacks(StackName=name)["Stacks"][0].get("EnableTerminationProtection"))


def instance_ids(cloudformation: Any, name: str) -> list[str]:
    """The stack's instances, without one that an update replaced but could not delete, because it is protected.

    CloudFormation tries to delete it three times, with the status DELETE_FAILED. Then it removes the resource from
    the stack (user guide, "Troubleshooting CloudFormation", "Resource removed from stack but not deleted").
    """
    updated = str(status(cloudformation, name)).startswith("UPDATE_")
    return physical_ids(cloudformation, name, "AWS::EC2::Instance", but="DELETE_" if updated else DELETED)


def physical_ids(
    cloudformation: Any, name: str, resource_type: str, logical_id: str = "", *, but: str = DELETED
) -> list[str]:
    """`logical_id`: a prefix. `but`: a prefix of the statuses to skip; a rollback lists deleted resources."""
    return [
        str(resource["PhysicalResourceId"])
        for resource in _resources(cloudformation, name, but)
        if resource["ResourceType"] == resource_type and resource["LogicalResourceId"].startswith(logical_id)
    ]


def all_physical_ids(cloudformation: Any, name: str) -> dict[str, list[str]]:
    """By resource type, without deleted resources."""
    found: dict[str, list[str]] = {}
    for resource in _resources(cloudformation, name, DELETED):
        found.setdefault(resource["ResourceType"], []).append(resource["PhysicalResourceId"])
    return found


def _resources(cloudformation: Any, name: str, but: str) -> Iterator[dict[str, Any]]:
    for page in cloudformation.get_paginator("list_stack_resources").paginate(StackName=name):
        for resource in page["StackResourceSummaries"]:
            if resource.get("PhysicalResourceId") and not resource["ResourceStatus"].startswith(but):
                yield resource


def has_cluster(stack_status: str | None) -> bool:
    """False if the creation failed, too: its remains are deleted before the next attempt."""
    return stack_status is not None and stack_status not in NOTHING_LEFT


def skipped_resources(cloudformation: Any, name: str) -> list[str]:
    """Logical ids of the resources that roll-backs of the last update skipped, in alphabetical order."""
    return sorted({event.resource for event in events(cloudformation, name) if event.reason == SKIPPED})


def status_reason(cloudformation: Any, name: str) -> str:
    return str(cloudformation.describe_stacks(StackName=name)["Stacks"][0].get("StackStatusReason", ""))


def last_change(cloudformation: Any, name: str) -> tuple[str, str] | None:
    """Id and time of the last operation that created or updated the cluster's stack; None if there is no cluster. Equal
    values mean that nobody has changed it."""
    if not has_cluster(status(cloudformation, name)):
        return None
    found = cloudformation.describe_stacks(StackName=name)["Stacks"][0]
    return found["StackId"], str(found.get("LastUpdatedTime") or found["CreationTime"])


def in_progress(stack_status: str | None) -> bool:
    return bool(stack_status) and str(stack_status).endswith("_IN_PROGRESS")


def events(cloudformation: Any, name: str) -> Iterator[StackEvent]:
    """Events of the current or last operation, newest first."""
    pages = cloudformation.get_paginator("describe_stack_events").paginate(StackName=name)
    for page in pages:
        for event in map(_event, page["StackEvents"]):
            yield event
            if _begins_an_operation(event):
                return


def _event(raw: dict[str, Any]) -> StackEvent:
    return StackEvent(
        id=raw["EventId"],
        resource=raw["LogicalResourceId"],
        type=raw["ResourceType"],
        status=raw["ResourceStatus"],
        reason=raw.get("ResourceStatusReason", ""),
    )


def _begins_an_operation(event: StackEvent) -> bool:
    begins = event.status in ("CREATE_IN_PROGRESS", "UPDATE_IN_PROGRESS", "DELETE_IN_PROGRESS")
    return event.type == "AWS::CloudFormation::Stack" and begins


def first_failure(cloudformation: Any, name: str) -> StackEvent | None:
    """The first failure of the last operation, which caused the later ones."""
    failed = [
        event
        for event in events(cloudformation, name)
        if event.status.endswith("_FAILED") and CANCELLED not in event.reason.lower()
    ]
    return failed[-1] if failed else None


def follow(cloudformation: Any, name: str, *, interval_s: float = 2.0) -> Iterator[StackEvent | None]:
    """Yields the events of an operation that another process began, until it ends; None while there is nothing new."""
    seen: set[str] = set()
    while True:
        ended = not in_progress(status(cloudformation, name))
        try:
            new = [event for event in events(cloudformation, name) if event.id not in seen]
        except cloudformation.exceptions.ClientError:
            return  # a deleted stack can no longer be queried by name
        seen.update(event.id for event in new)
        yield from reversed(new)
        if ended:
            return
        yield None
        time.sleep(interval_s)
