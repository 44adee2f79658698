"""Steps on single resources, with their events; every stack operation consists of them."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from localcloud.cloudformation import properties, schemas
from localcloud.cloudformation.errors import CancelledError, CloudFormationError, ResourceError, UnchangedError
from localcloud.cloudformation.intrinsics import resolve
from localcloud.cloudformation.model import Output, Stack, StackResource
from localcloud.cloudformation.resources.registry import Call, Made, handler_for, is_gone
from localcloud.cloudformation.scopes import Clients, scope

_log = logging.getLogger(__name__)
# Temporary refusals, until another resource is deleted; CloudFormation waits for that too.
_IN_USE = re.compile(r"DependencyViolation|DeleteConflict|InUse|IncorrectState|ResourceConflict|ScheduledForDeletion")
# Names that must be unique and do not identify the resource.
_NAMES = {
    "AWS::EC2::SecurityGroup": frozenset({"GroupName"}),
    "AWS::EC2::LaunchTemplate": frozenset({"LaunchTemplateName"}),
    "AWS::ElasticLoadBalancingV2::LoadBalancer": frozenset({"Name"}),
    "AWS::ElasticLoadBalancingV2::TargetGroup": frozenset({"Name"}),
    "AWS::SecretsManager::Secret": frozenset({"Name"}),
}
_DURATION = re.compile(r"PT(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?")


def explain(error: Exception) -> str:
    """An event's reason, in CloudFormation's form."""
    if isinstance(error, (ResourceError, CloudFormationError, BotoCoreError)):
        return str(error)
    if isinstance(error, ClientError):
        details = error.response["Error"]
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 400)
        message = details.get("Message") or details["Code"]
        return (
            f'Resource handler returned message: "{message} '
            f'(Operation: {error.operation_name}, Status Code: {status}, Error Code: {details["Code"]})"'
        )
    _log.error("resource handler failed", exc_info=error)
    return f"Internal failure: {type(error).__name__}: {error}"


def seconds(duration: str) -> float:
    """Seconds of an ISO 8601 duration of CreationPolicy: PT15M is 900.0."""
    match = _DURATION.fullmatch(duration)
    if match is None:
        raise ResourceError(f"Invalid Timeout {duration!r} in CreationPolicy: expected e.g. PT15M")
    hours, minutes, rest = (int(part or 0) for part in match.groups())
    return float(hours * 3600 + minutes * 60 + rest)


class Operation:
    """One operation on a stack. `cancelled` ends the waits of resources that are being created."""

    def __init__(
        self,
        stack: Stack,
        clients: Clients,
        imported: Callable[[str], Any],
        in_use_timeout_s: float = 120.0,
        knows_profile: Callable[[str], bool] = lambda name: True,
    ) -> None:
        self.stack = stack
        self.clients = clients
        self.imported = imported
        self.in_use_timeout_s = in_use_timeout_s
        self.knows_profile = knows_profile
        self.cancelled = threading.Event()
        self.check_outputs: Callable[[list[Output]], None] = lambda outputs: None
        self.abandoned = False  # the stack is being deleted: neither roll back nor complete

    def properties(self, definition: Mapping[str, Any]) -> dict[str, Any]:
        names = scope(self.stack, self.stack.revision, self.clients, self.imported)
        result: dict[str, Any] = resolve(definition.get("Properties") or {}, names)
        return result

    def call(self, resource: StackResource, cancelled: threading.Event | None = None) -> Call:
        def announce(physical_id: str) -> None:
            resource.physical_id = physical_id
            self.stack.set_resource_status(resource, resource.status, "Resource creation Initiated")

        return Call(
            clients=self.clients,
            region=self.stack.region,
            account_id=self.stack.account_id,
            stack_name=self.stack.name,
            stack_id=self.stack.stack_id,
            logical_id=resource.logical_id,
            tags=self.stack.revision.tags,
            cancelled=cancelled or threading.Event(),
            announce=announce,
            knows_profile=self.knows_profile,
        )

    def create(self, logical_id: str) -> StackResource:
        definition = self.stack.revision.template.resources[logical_id]
        resource = StackResource(logical_id, str(definition["Type"]), definition)
        self.stack.resources[logical_id] = resource
        self.stack.set_resource_status(resource, "CREATE_IN_PROGRESS")
        self._make(resource, "CREATE_FAILED")
        self.stack.set_resource_status(resource, "CREATE_COMPLETE")
        return resource

    def _make(self, resource: StackResource, status_if_failed: str) -> None:
        """Creates the record's resource; the caller sets the final status."""
        try:
            self._check_cancelled("creation")
            handler = handler_for(resource.resource_type)
            resource.properties = self.properties(resource.definition)
            properties.require(resource.resource_type, self.stack.region, resource.logical_id, resource.properties)
            made = handler.create(self.call(resource, self.cancelled), resource.properties)
            _take(resource, made)
            self._await_signals(resource)
        except Exception as error:
            self.stack.set_resource_status(resource, status_if_failed, explain(error))
            raise

    def _check_cancelled(self, what: str) -> None:
        if self.cancelled.is_set():
            raise CancelledError(f"Resource {what} cancelled")

    def _await_signals(self, resource: StackResource) -> None:
        policy = (resource.definition.get("CreationPolicy") or {}).get("ResourceSignal")
        if not policy:
            return
        count, deadline = int(policy.get("Count", 1)), time.monotonic() + seconds(policy.get("Timeout", "PT5M"))
        while True:
            signals = dict(self.stack.signals.get(resource.logical_id, {}))
            failed = sorted(unique_id for unique_id, success in signals.items() if not success)
            if failed:
                raise ResourceError(f"Received FAILURE signal with UniqueId {failed[0]}")
            if len(signals) >= count:
                return
            if time.monotonic() > deadline:
                missing = count - len(signals)
                raise ResourceError(f"Failed to receive {missing} resource signal(s) within the specified duration")
            if self.cancelled.wait(0.25):
                raise CancelledError("Resource creation cancelled")

    def update(self, resource: StackResource, definition: Mapping[str, Any]) -> StackResource:
        """The record after the update: a new one if the resource was replaced.

        When it raises, the record shows how far the attempt got.
        """
        try:
            self._check_cancelled("update")
            wanted = self.properties(definition)
            handler = handler_for(str(definition["Type"]))
            properties.require(resource.resource_type, self.stack.region, resource.logical_id, wanted)
            changed = {
                name for name in {*resource.properties, *wanted} if resource.properties.get(name) != wanted.get(name)
            }
            within = any(
                handler.replaces_for(name, resource.properties.get(name), wanted.get(name)) for name in changed
            )
            replaces = handler.replaces(changed) or within
            if replaces:
                _refuse_same_name(resource, wanted, self.stack.region)
        except Exception as error:
            self.stack.set_resource_status(resource, "UPDATE_FAILED", explain(error))
            raise
        if replaces:
            return self._replace(resource, definition)
        resource.definition = definition
        if changed:
            self.change_in_place(resource, resource.properties, wanted)
        return resource

    def _replace(self, resource: StackResource, definition: Mapping[str, Any]) -> StackResource:
        reason = "Requested update requires the creation of a new physical resource; hence creating one."
        fresh = StackResource(resource.logical_id, str(definition["Type"]), definition)
        self.stack.resources[resource.logical_id] = fresh
        self.stack.set_resource_status(fresh, "UPDATE_IN_PROGRESS", reason)
        self._make(fresh, "UPDATE_FAILED")
        self.stack.set_resource_status(fresh, "UPDATE_COMPLETE")
        return fresh

    def change_in_place(self, resource: StackResource, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        self.stack.set_resource_status(resource, "UPDATE_IN_PROGRESS")
        resource.properties, resource.refused = dict(new), False
        try:
            handler = handler_for(resource.resource_type)
            call = replace(self.call(resource, self.cancelled), announce=lambda physical_id: None)
            made = handler.update(call, str(resource.physical_id), old, new)
            _take(resource, made)
        except Exception as error:
            resource.refused = isinstance(error, UnchangedError)
            self.stack.set_resource_status(resource, "UPDATE_FAILED", explain(error))
            raise
        self.stack.set_resource_status(resource, "UPDATE_COMPLETE")

    def remove(self, resource: StackResource, policy: str = "Delete") -> None:
        """Deletes the record's resource, or skips it according to its policy."""
        if policy == "Retain":
            self.stack.set_resource_status(resource, "DELETE_SKIPPED")
            return
        self.stack.set_resource_status(resource, "DELETE_IN_PROGRESS")
        note = None
        try:
            if resource.physical_id is not None:
                note = self._delete(resource, policy)
        except Exception as error:
            self.stack.set_resource_status(resource, "DELETE_FAILED", explain(error))
            raise
        self.stack.set_resource_status(resource, "DELETE_COMPLETE", note)

    def _delete(self, resource: StackResource, policy: str) -> str | None:
        """A note for the event, or ""."""
        handler, call, physical_id = handler_for(resource.resource_type), self.call(resource), str(resource.physical_id)
        if policy == "Snapshot":
            handler.snapshot(call, physical_id)
        deadline, pause_s = time.monotonic() + self.in_use_timeout_s, 0.5
        while True:
            try:
                handler.delete(call, physical_id, resource.properties)
                return None
            except ClientError as error:
                if is_gone(error):
                    return f"It had been deleted already: {error}"
                if not _IN_USE.search(error.response["Error"]["Code"]) or time.monotonic() > deadline:
                    raise
            time.sleep(pause_s)
            pause_s = min(pause_s * 1.5, 3.0)


def _refuse_same_name(resource: StackResource, wanted: Mapping[str, Any], region: str) -> None:
    """A new resource is created before the old one is deleted, so both cannot have the name of the template."""
    schema = schemas.of(resource.resource_type, region)
    chosen = schemas.names(schema) if schema else frozenset()
    for name in chosen | _NAMES.get(resource.resource_type, frozenset()):
        if name in wanted and wanted[name] == resource.properties.get(name):
            raise ResourceError(
                "CloudFormation cannot update a stack when a custom-named resource requires replacing. "
                f"Rename {wanted[name]} and update the stack again."
            )


def _take(resource: StackResource, made: Made) -> None:
    resource.physical_id, resource.attributes = made.physical_id, dict(made.attributes)
