"""The changes of an update: the differences between a stack and a new revision of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from localcloud.cloudformation import graph, properties
from localcloud.cloudformation.errors import ResourceError, ValidationError
from localcloud.cloudformation.intrinsics import UNKNOWN, Scope, contains_unknown, resolve
from localcloud.cloudformation.model import Revision, Stack, StackResource
from localcloud.cloudformation.resources.registry import Handler, handler_for
from localcloud.cloudformation.scopes import Clients, attribute_of, scope

# Parts of a definition besides Properties whose change changes the resource.
_ASPECTS = ("Metadata", "CreationPolicy", "UpdatePolicy", "DeletionPolicy", "UpdateReplacePolicy")


@dataclass(frozen=True)
class PropertyChange:
    name: str
    before: Any
    after: Any
    recreation: str  # Never | Conditionally | Always
    dynamic: bool  # the new value is known only after another change


@dataclass(frozen=True)
class ResourceChange:
    action: str  # Add | Modify | Remove
    logical_id: str
    resource_type: str
    physical_id: str | None = None
    replacement: str | None = None  # True | False | Conditional, of Modify
    policy_action: str | None = None
    properties: list[PropertyChange] = field(default_factory=list)
    aspects: list[str] = field(default_factory=list)


def present(revision: Revision, names: Scope) -> list[str]:
    """Logical ids of the resources whose condition holds."""
    resources = revision.template.resources
    return [
        logical_id
        for logical_id, definition in resources.items()
        if "Condition" not in definition or names.condition(definition["Condition"])
    ]


class Planner:
    """Walks a new revision in dependency order, and records what happens to each resource."""

    def __init__(self, stack: Stack, revision: Revision, clients: Clients, imported: Callable[[str], Any]) -> None:
        self.stack = stack
        self.revision = revision
        self.changes: dict[str, ResourceChange] = {}
        self.violations: dict[str, str] = {}
        """From the types' schemas, by logical id."""
        self.planned: list[ResourceChange] = []

        def make(of: Revision) -> Scope:
            return scope(stack, of, clients, imported, self._reference, self._attribute, read_dynamic=False)

        self._new = make(revision)
        self._old = make(stack.revision)

    def plan(self) -> list[ResourceChange]:
        """Raises ValidationError for a template that cannot be resolved, or that changes a resource's type."""
        names = present(self.revision, self._new)
        self._refuse_other_types(names)
        for logical_id in graph.in_order(graph.dependencies(self.revision.template, names)):
            change = self._change(logical_id)
            if change is not None:
                self.changes[logical_id] = change
        gone = [resource for name, resource in self.stack.resources.items() if name not in names]
        self.planned = [*self.changes.values(), *(_removal(resource) for resource in gone)]
        return self.planned

    def by_name(self) -> dict[str, ResourceChange]:
        return {change.logical_id: change for change in self.planned}

    def _refuse_other_types(self, names: list[str]) -> None:
        changed = [
            name
            for name in names
            if (now := self.stack.resources.get(name)) is not None
            and now.physical_id is not None
            and now.resource_type != self.revision.template.resources[name]["Type"]
        ]
        if changed:
            raise ValidationError(
                "Update of resource type is not permitted. The new template modifies resource type of the following "
                f"resources: [{', '.join(sorted(changed))}]"
            )

    def _change(self, logical_id: str) -> ResourceChange | None:
        definition = self.revision.template.resources[logical_id]
        after = resolve(definition.get("Properties") or {}, self._new)
        if found := properties.violations(str(definition["Type"]), self.stack.region, after):
            self.violations[logical_id] = properties.explain(logical_id, found)
        resource = self.stack.resources.get(logical_id)
        if resource is None or resource.physical_id is None or resource.status == "CREATE_FAILED":
            return ResourceChange("Add", logical_id, str(definition["Type"]))
        handler = _handler(str(definition["Type"]))
        changed = _compare(self._before(resource), after, handler)
        aspects = [name for name in _ASPECTS if definition.get(name) != resource.definition.get(name)]
        if not changed and not aspects:
            return None
        return _modification(resource, definition, changed, aspects, _replacement(changed, handler))

    def _before(self, resource: StackResource) -> Mapping[str, Any]:
        """The properties that the last revision set, resolved in the same way as the new ones.

        After a failure without rollback that revision is not what the resource has; then the actual properties are
        used.
        """
        if self.stack.status.endswith("FAILED"):
            return resource.properties
        before: dict[str, Any] = resolve(resource.definition.get("Properties") or {}, self._old)
        return before

    def _reference(self, name: str) -> Any:
        change = self.changes.get(name)
        resource = self.stack.resources.get(name)
        if resource is None or resource.physical_id is None:
            return UNKNOWN
        if change is not None and (change.action == "Add" or change.replacement in ("True", "Conditional")):
            return UNKNOWN
        return resource.physical_id

    def _attribute(self, name: str, key: str) -> Any:
        if self._reference(name) is UNKNOWN:
            return UNKNOWN
        resource = self.stack.resources[name]
        handler = _handler(resource.resource_type)
        if name in self.changes and handler is not None and key in handler.moving:
            return UNKNOWN
        return attribute_of(resource, name, key)


def _handler(resource_type: str) -> Handler | None:
    try:
        return handler_for(resource_type)
    except ResourceError:
        return None


def _compare(before: Mapping[str, Any], after: Mapping[str, Any], handler: Handler | None) -> list[PropertyChange]:
    changes = []
    for name in sorted({*before, *after}):
        old, new = before.get(name), after.get(name)
        unknown = contains_unknown(new)
        if old == new and not unknown:
            continue
        replaces = handler is None or handler.replaces({name}) or handler.replaces_for(name, old, new)
        maybe = unknown if replaces else handler is not None and name in handler.conditional
        recreation = "Conditionally" if maybe else "Always" if replaces else "Never"
        changes.append(PropertyChange(name, old, new, recreation, unknown))
    return changes


def _replacement(changes: list[PropertyChange], handler: Handler | None) -> str:
    recreations = {change.recreation for change in changes}
    if "Always" in recreations:
        return "True"
    return "Conditional" if "Conditionally" in recreations else "False"


def _modification(
    resource: StackResource,
    definition: Mapping[str, Any],
    changed: list[PropertyChange],
    aspects: list[str],
    replacement: str,
) -> ResourceChange:
    policy = str(definition.get("UpdateReplacePolicy", "Delete"))
    return ResourceChange(
        "Modify",
        resource.logical_id,
        str(definition["Type"]),
        resource.physical_id,
        replacement,
        f"ReplaceAnd{policy}" if replacement == "True" else None,
        changed,
        aspects,
    )


def _removal(resource: StackResource) -> ResourceChange:
    policy = resource.policy("DeletionPolicy").replace("RetainExceptOnCreate", "Retain")
    return ResourceChange(
        "Remove", resource.logical_id, resource.resource_type, resource.physical_id, policy_action=policy
    )
