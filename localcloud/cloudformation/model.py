"""The service's state: stacks, their resources, events and change sets."""

from __future__ import annotations

import datetime
import threading
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from localcloud.cloudformation.parameters import ParameterValue
from localcloud.cloudformation.template import EMPTY, Template


def now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


@dataclass
class StackResource:
    """The current state of one resource of a stack. `properties` are the resolved values that the handler got."""

    logical_id: str
    resource_type: str
    definition: Mapping[str, Any]
    physical_id: str | None = None
    properties: dict[str, Any] = field(default_factory=dict)
    attributes: dict[str, Any] = field(default_factory=dict)
    status: str = "CREATE_IN_PROGRESS"
    reason: str | None = None
    updated: datetime.datetime = field(default_factory=now)
    refused: bool = False  # the last update was refused before it changed anything

    def policy(self, name: str) -> str:
        return str(self.definition.get(name, "Delete"))


@dataclass(frozen=True)
class Event:
    logical_id: str
    physical_id: str
    resource_type: str
    status: str
    reason: str | None
    properties: Mapping[str, Any] | None
    operation_id: str
    event_id: str
    time: datetime.datetime


@dataclass(frozen=True)
class Output:
    key: str
    value: str
    description: str | None
    export_name: str | None


@dataclass(frozen=True)
class Revision:
    """A revision of a stack: a template with its parameters and tags."""

    template: Template = EMPTY
    parameters: Mapping[str, ParameterValue] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Stack:
    name: str
    region: str
    account_id: str
    stack_id: str
    revision: Revision = field(default_factory=Revision)
    status: str = "REVIEW_IN_PROGRESS"
    status_reason: str | None = None
    created: datetime.datetime = field(default_factory=now)
    updated: datetime.datetime | None = None
    deleted: datetime.datetime | None = None
    resources: dict[str, StackResource] = field(default_factory=dict)
    outputs: list[Output] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    change_sets: dict[str, ChangeSet] = field(default_factory=dict)
    change_set_id: str | None = None
    capabilities: list[str] = field(default_factory=list)
    role_arn: str | None = None
    notification_arns: list[str] = field(default_factory=list)
    disable_rollback: bool = False
    termination_protection: bool = False
    policy: str | None = None
    # unique ids of SignalResource by logical id: whether each reported success
    signals: dict[str, dict[str, bool]] = field(default_factory=dict)
    # Rolls back an update that failed with rollback disabled, or whose rollback failed.
    undo: Callable[..., None] | None = None
    operation_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    lock: threading.RLock = field(default_factory=threading.RLock)

    @property
    def exists(self) -> bool:
        return self.status != "DELETE_COMPLETE"

    @property
    def busy(self) -> bool:
        return self.status.endswith("_IN_PROGRESS") and self.status != "REVIEW_IN_PROGRESS"

    def set_status(self, status: str, reason: str | None = None) -> None:
        # The event comes first: a client that sees the final status must find its event too.
        self.record(self.name, self.stack_id, "AWS::CloudFormation::Stack", status, reason)
        self.status, self.status_reason = status, reason

    def set_resource_status(self, resource: StackResource, status: str, reason: str | None = None) -> None:
        resource.status, resource.reason, resource.updated = status, reason, now()
        self.record(
            resource.logical_id, resource.physical_id or "", resource.resource_type, status, reason, resource.properties
        )

    def record(
        self,
        logical_id: str,
        physical_id: str,
        resource_type: str,
        status: str,
        reason: str | None,
        properties: Mapping[str, Any] | None = None,
    ) -> None:
        with self.lock:
            time = now()
            if self.events:  # clients sort by milliseconds, so no two events of a stack may have the same
                time = max(time, self.events[-1].time + datetime.timedelta(milliseconds=1))
            event_id = f"{logical_id}-{status}-{uuid.uuid4().hex[:12]}"
            operation_id = self.operation_id
            event = Event(
                logical_id, physical_id, resource_type, status, reason, properties, operation_id, event_id, time
            )
            self.events.append(event)


@dataclass
class ChangeSet:
    name: str
    change_set_id: str
    stack: Stack
    kind: str  # CREATE | UPDATE
    revision: Revision
    changes: list[Any]
    status: str
    status_reason: str | None
    execution_status: str
    description: str | None = None
    created: datetime.datetime = field(default_factory=now)
    capabilities: list[str] = field(default_factory=list)
    notification_arns: list[str] = field(default_factory=list)
    role_arn: str | None = None
    on_stack_failure: str | None = None
    import_existing: bool | None = None
    include_nested: bool | None = None
