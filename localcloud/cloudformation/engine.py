"""Stack operations: create, update, delete, and the rollback after each failure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from localcloud.cloudformation import graph, stack_policy
from localcloud.cloudformation.errors import CloudFormationError, ValidationError
from localcloud.cloudformation.intrinsics import Scope, as_text, resolve
from localcloud.cloudformation.model import Output, Revision, StackResource, now
from localcloud.cloudformation.operation import Operation, explain
from localcloud.cloudformation.plan import Planner, ResourceChange, present
from localcloud.cloudformation.scopes import scope


def create(operation: Operation, on_failure: str = "ROLLBACK") -> None:
    """Creates every resource of the stack's revision. `on_failure`: ROLLBACK | DELETE | DO_NOTHING."""
    stack = operation.stack
    planner = Planner(stack, stack.revision, operation.clients, operation.imported)
    planner.plan()
    reason = _create_all(operation) if not planner.violations else _fail_at_once(operation, planner.violations)
    if operation.abandoned:
        return
    if not reason:
        stack.set_status("CREATE_COMPLETE")
    elif on_failure == "DO_NOTHING":
        stack.set_status("CREATE_FAILED", reason)
    else:
        roll_back_creation(operation, reason, delete=on_failure == "DELETE")


def _create_all(operation: Operation) -> str:
    """Empty, or the reason of the failure."""
    stack = operation.stack
    needs = graph.dependencies(stack.revision.template, present(stack.revision, _scope(operation)))

    def create_one(logical_id: str) -> None:
        operation.create(logical_id)

    failures = graph.run(needs, create_one, on_failure=operation.cancelled.set)
    return _failed_words({name: "create" for name in failures}) or _set_outputs(operation)


def _fail_at_once(operation: Operation, violations: dict[str, str]) -> str:
    """A resource with invalid properties fails before any other is created; AWS finds most of these errors only when
    its turn comes."""
    stack, verbs = operation.stack, {}
    for logical_id, reason in violations.items():
        resource = stack.resources.get(logical_id)
        if resource is None:
            definition = stack.revision.template.resources[logical_id]
            resource = stack.resources[logical_id] = StackResource(logical_id, str(definition["Type"]), definition)
            stack.set_resource_status(resource, "CREATE_IN_PROGRESS")
        verbs[logical_id] = "create" if resource.physical_id is None else "update"
        stack.set_resource_status(resource, f"{verbs[logical_id].upper()}_FAILED", reason)
    return _failed_words(verbs)


def roll_back_creation(operation: Operation, reason: str, delete: bool = False) -> None:
    stack = operation.stack
    kind = "DELETE" if delete else "ROLLBACK"
    stack.set_status(f"{kind}_IN_PROGRESS", f"{reason} {kind.capitalize()} requested by user.")
    failures = _remove_all(operation, list(stack.resources.values()), creating=True)
    if failures:
        stack.set_status(f"{kind}_FAILED", _failed_words({name: "delete" for name in failures}))
        return
    if delete:
        stack.deleted = now()
    stack.set_status(f"{kind}_COMPLETE")


def delete(operation: Operation, retain: Iterable[str] = ()) -> None:
    stack = operation.stack
    failures = _remove_all(operation, list(stack.resources.values()), retain=set(retain))
    if failures:
        stack.set_status("DELETE_FAILED", _failed_words({name: "delete" for name in failures}))
        return
    stack.deleted = now()
    stack.set_status("DELETE_COMPLETE")


def _remove_all(
    operation: Operation,
    resources: list[StackResource],
    *,
    retain: set[str] | None = None,
    creating: bool = False,
) -> dict[str, Exception]:
    """Deletes in reverse dependency order; deleted resources leave the stack."""
    live = {resource.logical_id: resource for resource in resources if resource.status != "DELETE_COMPLETE"}
    definitions = replace(
        operation.stack.revision.template, resources={name: item.definition for name, item in live.items()}
    )
    needs = graph.reverse(graph.dependencies(definitions, live))

    def remove_one(logical_id: str) -> None:
        resource = live[logical_id]
        policy = resource.policy("DeletionPolicy")
        if policy == "RetainExceptOnCreate":
            policy = "Delete" if creating else "Retain"
        if logical_id in (retain or ()):
            policy = "Retain"
        if creating and resource.physical_id is None:
            policy = "Delete"  # nothing was created, so nothing needs keeping
        operation.remove(resource, policy)

    return graph.run(needs, remove_one)


class Update:
    """An update, and its rollback."""

    def __init__(self, operation: Operation, revision: Revision, policy: str | None = None) -> None:
        """`policy`: the stack policy in force, as text."""
        self.operation = operation
        self.policy = policy
        self.stack = operation.stack
        self.revision = revision
        self.old_revision = self.stack.revision
        # The records are changed in place or replaced, so the copies keep the old state.
        self.originals = dict(self.stack.resources)
        self.before = {name: replace(item) for name, item in self.originals.items()}
        self.old_outputs = list(self.stack.outputs)
        self.touched: set[str] = set()
        self.stuck: set[str] = set()  # resources that the last roll-back could not restore
        self.obsolete: list[StackResource] = []

    def run(self, roll_back: bool = True) -> None:
        try:
            planner = self._plan()
        except CloudFormationError as error:  # nothing has been changed yet
            self.stack.set_status("UPDATE_ROLLBACK_IN_PROGRESS", error.message)
            self.stack.set_status("UPDATE_ROLLBACK_COMPLETE")
            return
        reason = self._refuse(planner) or self._apply(planner.by_name())
        if not reason:
            self._clean_up("UPDATE_COMPLETE", self.obsolete, "UpdateReplacePolicy")
        elif roll_back:
            self.stack.set_status("UPDATE_ROLLBACK_IN_PROGRESS", reason)
            self.roll_back()
        else:
            self.stack.undo = self.roll_back
            self.stack.set_status("UPDATE_FAILED", reason)

    def _plan(self) -> Planner:
        planner = Planner(self.stack, self.revision, self.operation.clients, self.operation.imported)
        planner.plan()
        self.stack.revision = self.revision
        return planner

    def _refuse(self, planner: Planner) -> str:
        """Empty, or why the update is refused before any change."""
        denied = dict(planner.violations)
        for change in planner.planned if self.policy else ():
            if reason := stack_policy.denial(str(self.policy), change):
                denied[change.logical_id] = reason
        self.touched |= set(denied)
        return _fail_at_once(self.operation, denied)

    def _apply(self, changes: dict[str, ResourceChange]) -> str:
        """Executes the plan; returns "" after success, else the reason."""
        needs = graph.dependencies(self.revision.template, present(self.revision, _scope(self.operation)))

        def apply_one(logical_id: str) -> None:
            change = changes.get(logical_id)
            if change is not None:
                self.touched.add(logical_id)
                self._apply_one(change)

        failures = graph.run(needs, apply_one, on_failure=self.operation.cancelled.set)
        if failures:
            verbs = {name: "create" if changes[name].action == "Add" else "update" for name in failures}
            return _failed_words(verbs)
        self.obsolete += [self.stack.resources[name] for name, item in changes.items() if item.action == "Remove"]
        return _set_outputs(self.operation)

    def _apply_one(self, change: ResourceChange) -> None:
        resource = self.stack.resources.get(change.logical_id)
        if change.action == "Add":
            if resource is not None:
                self.operation.remove(resource)  # left by a failed attempt without rollback
            self.operation.create(change.logical_id)
        elif resource is not None:
            definition = self.revision.template.resources[change.logical_id]
            if self.operation.update(resource, definition) is not resource:
                self.obsolete.append(resource)

    def _clean_up(self, status: str, resources: list[StackResource], policy: str) -> None:
        """Deletes what the update left behind. As on AWS, an error in this does not fail the update."""
        if resources:
            self.stack.set_status(f"{status}_CLEANUP_IN_PROGRESS")
        current = {resource.logical_id: resource for resource in self.stack.resources.values()}
        replaced = [item for item in resources if current.get(item.logical_id) is not item]
        removed = [item for item in resources if current.get(item.logical_id) is item]
        self._remove_replaced(replaced, policy)
        failed = _remove_all(self.operation, removed, creating=policy == "Delete")
        for item in removed:
            if item.logical_id not in failed:
                self.stack.resources.pop(item.logical_id, None)
        self.stack.undo = None
        self.stack.set_status(status)

    def _remove_replaced(self, replaced: list[StackResource], policy: str) -> None:
        by_name = {item.logical_id: item for item in replaced}
        template = replace(self.revision.template, resources={name: item.definition for name, item in by_name.items()})
        # The events of the old physical resource must not become the status of the new one.
        graph.run(
            graph.reverse(graph.dependencies(template, by_name)),
            lambda name: self.operation.remove(
                by_name[name], "Delete" if policy == "Delete" else by_name[name].policy(policy)
            ),
        )

    def roll_back(self, skip: Collection[str] = (), *, force: bool = False) -> None:
        """`skip`: resources that count as rolled back. `force`: skip all that could not be rolled back before."""
        if refusal := self._refused_skips(skip):
            self.stack.set_status("UPDATE_ROLLBACK_FAILED", refusal)
            return
        skipped = set(skip) | (self.stuck if force else set())
        self.operation.cancelled.clear()
        new_resources = dict(self.stack.resources)
        self.stack.revision = self.old_revision
        for name in skipped:
            self._take_for_restored(self.stack.resources[name], self.before[name])
        needs = graph.dependencies(self.old_revision.template, (set(self.before) & self.touched) - skipped)
        failures = graph.run(needs, lambda name: self._restore(name, new_resources[name]), on_failure=lambda: None)
        self.stuck = set(failures)
        if failures:
            self.stack.undo = self.roll_back
            names = ", ".join(sorted(failures))
            why = "; ".join(explain(error) for error in failures.values())
            self.stack.set_status(
                "UPDATE_ROLLBACK_FAILED", f"The following resource(s) failed to update: [{names}]. {why}"
            )
            return
        self.stack.outputs = self.old_outputs
        unwanted = [
            item
            for name, item in new_resources.items()
            if name in self.touched and self.stack.resources.get(name) is not item or name not in self.before
        ]
        self._clean_up("UPDATE_ROLLBACK_COMPLETE", unwanted, "Delete")

    def _refused_skips(self, skip: Collection[str]) -> str:
        """Empty, or why the roll-back fails again before it begins. CloudFormation accepts the call, and checks the
        names afterwards: floci-io/floci, CloudFormationContinueUpdateRollbackIntegrationTest, has its words.

        A resource whose update was only cancelled is UPDATE_FAILED, too, but cannot be skipped (API reference,
        ContinueUpdateRollback). The words for that case are not known.
        """
        unknown = [name for name in skip if name not in self.stack.resources]
        if nested := [name for name in unknown if "." in name]:
            return f"Stack [{nested[0].partition('.')[0]}] does not exist"
        if unknown:
            return f"Resources with logicalIds [{', '.join(unknown)}] do not belong to stack {self.stack.name}"
        if set(skip) - self.stuck:
            return "Only the resources in UPDATE_FAILED state are allowed to be skipped"
        return ""

    def _take_for_restored(self, current: StackResource, old: StackResource) -> None:
        current.definition, current.properties = old.definition, old.properties
        self.stack.set_resource_status(current, "UPDATE_COMPLETE", "Resource skipped during UpdateRollback")

    def _restore(self, logical_id: str, current: StackResource) -> None:
        old = self.before[logical_id]
        if current is not self.originals[logical_id]:
            self.stack.resources[logical_id] = replace(old)
            return
        changed = current.properties != old.properties and not current.refused
        current.definition = old.definition
        if changed:
            self._change_back(current, old)
        else:
            current.properties, current.status, current.reason = old.properties, old.status, None

    def _change_back(self, current: StackResource, old: StackResource) -> None:
        refused_before = current.status == "UPDATE_FAILED" and current.logical_id not in self.stuck
        refusal, had = current.reason if refused_before else None, current.properties
        try:
            self.operation.change_in_place(current, had, old.properties)
        except Exception as error:
            if explain(error) != refusal:
                current.properties = had  # so that the next roll-back attempts it again
                raise
            # A handler that refused the update would refuse its reversal with the same message: it changed nothing.
            current.properties = old.properties
            self.stack.set_resource_status(current, "UPDATE_COMPLETE", "The refused update changed nothing.")


def _scope(operation: Operation) -> Scope:
    return scope(operation.stack, operation.stack.revision, operation.clients, operation.imported)


def _failed_words(verbs: dict[str, str]) -> str:
    parts = []
    for verb in ("create", "update", "delete"):
        names = sorted(name for name, done in verbs.items() if done == verb)
        if names:
            parts.append(f"The following resource(s) failed to {verb}: [{', '.join(names)}].")
    return " ".join(parts)


def _set_outputs(operation: Operation) -> str:
    """Empty, or why an output has no value."""
    names, outputs = _scope(operation), []
    try:
        for key, definition in operation.stack.revision.template.outputs.items():
            if "Condition" in definition and not names.condition(definition["Condition"]):
                continue
            export = resolve((definition.get("Export") or {}).get("Name"), names)
            found = resolve(definition["Value"], names)
            if isinstance(found, (dict, list)):
                raise ValidationError(
                    f"Template format error: Output {key} is malformed. The Value field of every Outputs member must "
                    "evaluate to a String."
                )
            value = as_text(found)
            outputs.append(Output(key, value, definition.get("Description"), export))
        operation.check_outputs(outputs)
    except Exception as error:
        return explain(error)
    operation.stack.outputs = outputs
    return ""
