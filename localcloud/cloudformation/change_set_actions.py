"""API actions on change sets."""

from __future__ import annotations

import uuid
from typing import Any

from localcloud.cloudformation import requests
from localcloud.cloudformation.actions import Action, Given, page, revision
from localcloud.cloudformation.errors import (
    AlreadyExistsError,
    ChangeSetNotFoundError,
    InvalidChangeSetStatusError,
    ValidationError,
)
from localcloud.cloudformation.intrinsics import as_text, contains_unknown
from localcloud.cloudformation.model import ChangeSet, Stack
from localcloud.cloudformation.plan import Planner, PropertyChange, ResourceChange
from localcloud.cloudformation.service import Service
from localcloud.cloudformation.stack_actions import configure, on_failure, require_updatable, same_otherwise

NO_CHANGES = "The submitted information didn't contain changes. Submit different information to create a change set."


def create_change_set(service: Service, region: str, given: Given) -> dict[str, Any]:
    kind = str(given.get("ChangeSetType") or "UPDATE")
    name = str(given["ChangeSetName"])
    requests.check_name(name, "changeSetName")
    with service.lock:
        stack, is_new = _stack_for(service, region, str(given["StackName"]), kind)
        if is_new:
            stack.set_status("REVIEW_IN_PROGRESS", "User Initiated")
    try:
        if name in stack.change_sets:
            raise AlreadyExistsError(f"ChangeSet {name} cannot be created due to a mismatch with existing attributes")
        change_set = _planned(service, stack, name, kind, given)
    except Exception:
        if is_new and not stack.change_sets:
            service.drop(stack)
        raise
    stack.change_sets[name] = change_set
    return {"Id": change_set.change_set_id, "StackId": stack.stack_id}


def _stack_for(service: Service, region: str, name: str, kind: str) -> tuple[Stack, bool]:
    """The stack to change, and whether it was created for this change set."""
    if kind not in ("CREATE", "UPDATE"):
        raise ValidationError(f"ChangeSetType {kind} is not supported by the local cloud; supported: CREATE, UPDATE")
    stack = service.find(region, name)
    if stack is not None and not stack.exists:
        stack = None
    if kind == "CREATE":
        requests.check_name(name, "stackName")
        if stack is not None and stack.status != "REVIEW_IN_PROGRESS":
            raise ValidationError(
                f"Stack [{name}] already exists and cannot be created again with the changeSet [{name}]."
            )
        return (stack, False) if stack else (service.add(region, name), True)
    if stack is None:
        raise ValidationError(f"Stack [{name}] does not exist")
    require_updatable(stack)
    return stack, False


def _planned(service: Service, stack: Stack, name: str, kind: str, given: Given) -> ChangeSet:
    wanted = revision(service, stack, given)
    planner = Planner(stack, wanted, service.clients, service.imported(stack.region))
    changes = planner.plan()
    failure = NO_CHANGES if not changes and same_otherwise(stack, wanted) else None
    if planner.violations:  # AWS::EarlyValidation::PropertyValidation, as AWS calls it
        failure = " ".join(planner.violations.values())
    base = f"arn:aws:cloudformation:{stack.region}:{stack.account_id}:changeSet"
    return ChangeSet(
        name=name,
        change_set_id=f"{base}/{name}/{uuid.uuid4()}",
        stack=stack,
        kind=kind,
        revision=wanted,
        changes=changes,
        status="FAILED" if failure else "CREATE_COMPLETE",
        status_reason=failure,
        execution_status="UNAVAILABLE" if failure else "AVAILABLE",
        description=given.get("Description"),
        capabilities=list(given.get("Capabilities") or []),
        notification_arns=list(given.get("NotificationARNs") or []),
        role_arn=given.get("RoleARN"),
        on_stack_failure=given.get("OnStackFailure"),
        import_existing=given.get("ImportExistingResources"),
        include_nested=given.get("IncludeNestedStacks"),
    )


def find(service: Service, region: str, given: Given) -> ChangeSet:
    """By ARN, or by name within the named stack."""
    wanted = str(given["ChangeSetName"])
    if given.get("StackName"):
        stack = service.find(region, str(given["StackName"]))
        if stack is None:
            raise ValidationError(f"Stack [{given['StackName']}] does not exist")
        stacks = [stack]
    else:
        stacks = service.stacks(region)
    for stack in stacks:
        for change_set in stack.change_sets.values():
            if wanted in (change_set.name, change_set.change_set_id):
                return change_set
    raise ChangeSetNotFoundError(f"ChangeSet [{wanted}] does not exist")


def describe_change_set(service: Service, region: str, given: Given) -> dict[str, Any]:
    item = find(service, region, given)
    changes, following = page(item.changes, given.get("NextToken"))
    return {
        **_summary(item),
        "Parameters": [
            {"ParameterKey": name, "ParameterValue": "****" if value.hidden else value.given}
            for name, value in item.revision.parameters.items()
        ],
        "NotificationARNs": item.notification_arns,
        "RollbackConfiguration": {},
        "Capabilities": item.capabilities,
        "Tags": [{"Key": key, "Value": value} for key, value in item.revision.tags.items()],
        "Changes": [
            {"Type": "Resource", "ResourceChange": describe_change(change, bool(given.get("IncludePropertyValues")))}
            for change in changes
        ],
        "NextToken": following,
        "OnStackFailure": item.on_stack_failure,
    }


def describe_change(change: ResourceChange, with_values: bool) -> dict[str, Any]:
    scope = sorted({_attribute_of(item.name) for item in change.properties} | set(change.aspects))
    details = [detail for item in change.properties for detail in _details(item, with_values)]
    details += [
        {
            "Target": {"Attribute": aspect, "RequiresRecreation": "Never"},
            "Evaluation": "Static",
            "ChangeSource": "DirectModification",
        }
        for aspect in change.aspects
    ]
    return {
        "PolicyAction": change.policy_action,
        "Action": change.action,
        "LogicalResourceId": change.logical_id,
        "PhysicalResourceId": change.physical_id,
        "ResourceType": change.resource_type,
        "Replacement": change.replacement,
        "Scope": scope,
        "Details": details,
    }


def _attribute_of(name: str) -> str:
    return "Tags" if name == "Tags" else "Properties"


def _details(change: PropertyChange, with_values: bool) -> list[dict[str, Any]]:
    attribute = _attribute_of(change.name)
    target: dict[str, Any] = {"Attribute": attribute, "RequiresRecreation": change.recreation}
    if attribute == "Properties":
        target["Name"] = change.name
    if with_values:
        unknown = contains_unknown(change.after)
        target["BeforeValue"] = None if change.before is None else as_text(change.before)
        target["AfterValue"] = None if unknown or change.after is None else as_text(change.after)
    detail = {
        "Target": target,
        "Evaluation": "Dynamic" if change.dynamic else "Static",
        "ChangeSource": "ResourceAttribute" if change.dynamic else "DirectModification",
    }
    return [detail]


def _summary(item: ChangeSet) -> dict[str, Any]:
    return {
        "ChangeSetName": item.name,
        "ChangeSetId": item.change_set_id,
        "StackId": item.stack.stack_id,
        "StackName": item.stack.name,
        "Description": item.description,
        "CreationTime": item.created,
        "ExecutionStatus": item.execution_status,
        "Status": item.status,
        "StatusReason": item.status_reason,
        "IncludeNestedStacks": item.include_nested,
        "ImportExistingResources": item.import_existing,
    }


def execute_change_set(service: Service, region: str, given: Given) -> dict[str, Any]:
    item = find(service, region, given)
    stack = item.stack
    with stack.lock:  # until its status says that an operation is in progress
        if item.execution_status != "AVAILABLE":
            raise InvalidChangeSetStatusError(
                f"ChangeSet [{item.change_set_id}] cannot be executed in its current status of [{item.status}]"
            )
        if item.kind == "UPDATE":
            require_updatable(stack)
        rollback_off = bool(given.get("DisableRollback"))
        settings = {
            "Capabilities": item.capabilities,
            "NotificationARNs": item.notification_arns,
            "RoleARN": item.role_arn,
            "DisableRollback": rollback_off,
            "OnStackFailure": item.on_stack_failure,
        }
        configure(stack, settings)
        stack.change_set_id = item.change_set_id
        item.execution_status = "EXECUTE_COMPLETE"
        stack.change_sets = {item.name: item}  # executing a change set makes the stack's others obsolete
        if item.kind == "CREATE":
            service.create(stack, item.revision, on_failure(settings))
        else:
            service.update(stack, item.revision, roll_back=not rollback_off, policy=stack.policy)
    return {}


def delete_change_set(service: Service, region: str, given: Given) -> dict[str, Any]:
    try:
        item = find(service, region, given)
    except ChangeSetNotFoundError:
        return {}  # as on AWS, deleting a missing one is no error
    del item.stack.change_sets[item.name]
    return {}


def list_change_sets(service: Service, region: str, given: Given) -> dict[str, Any]:
    stack = service.get(region, str(given["StackName"]))
    items, following = page(list(stack.change_sets.values()), given.get("NextToken"))
    return {"Summaries": [_summary(item) for item in items], "NextToken": following}


ACTIONS: dict[str, Action] = {
    "CreateChangeSet": create_change_set,
    "DescribeChangeSet": describe_change_set,
    "ExecuteChangeSet": execute_change_set,
    "DeleteChangeSet": delete_change_set,
    "ListChangeSets": list_change_sets,
}
