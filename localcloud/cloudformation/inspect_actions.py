"""API actions that read: stacks, resources, events, templates, exports."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from localcloud.cloudformation import template as templates
from localcloud.cloudformation import template_types
from localcloud.cloudformation.actions import PAGE, Action, Given, page, position, required_capabilities, template_text
from localcloud.cloudformation.change_set_actions import find as find_change_set
from localcloud.cloudformation.errors import UnsupportedError, ValidationError
from localcloud.cloudformation.model import Event, Stack, StackResource
from localcloud.cloudformation.service import Service

_NOT_CHECKED = {"StackDriftStatus": "NOT_CHECKED"}
_RESOURCE_NOT_CHECKED = {"StackResourceDriftStatus": "NOT_CHECKED"}


def describe_stacks(service: Service, region: str, given: Given) -> dict[str, Any]:
    name = given.get("StackName")
    stacks = [service.get(region, str(name))] if name else [item for item in service.stacks(region) if item.exists]
    items, following = page(stacks, given.get("NextToken"))
    return {"Stacks": [_stack(item) for item in items], "NextToken": following}


def _stack(stack: Stack) -> dict[str, Any]:
    return {
        **_stack_times(stack),
        "ChangeSetId": stack.change_set_id,
        "Description": stack.revision.template.description,
        "Parameters": [
            {
                "ParameterKey": name,
                "ParameterValue": "****" if value.hidden else value.given,
                "ResolvedValue": str(value.value) if value.from_ssm else None,
            }
            for name, value in stack.revision.parameters.items()
        ],
        "RollbackConfiguration": {},
        "DisableRollback": stack.disable_rollback,
        "NotificationARNs": stack.notification_arns,
        "Capabilities": stack.capabilities,
        "Outputs": [
            {
                "OutputKey": output.key,
                "OutputValue": output.value,
                "Description": output.description,
                "ExportName": output.export_name,
            }
            for output in stack.outputs
        ],
        "RoleARN": stack.role_arn,
        "Tags": [{"Key": key, "Value": value} for key, value in stack.revision.tags.items()],
        "EnableTerminationProtection": stack.termination_protection,
        "DriftInformation": _NOT_CHECKED,
    }


def _stack_times(stack: Stack) -> dict[str, Any]:
    return {
        "StackId": stack.stack_id,
        "StackName": stack.name,
        "CreationTime": stack.created,
        "LastUpdatedTime": stack.updated,
        "DeletionTime": stack.deleted,
        "StackStatus": stack.status,
        "StackStatusReason": stack.status_reason,
    }


def list_stacks(service: Service, region: str, given: Given) -> dict[str, Any]:
    wanted = set(given.get("StackStatusFilter") or [])
    stacks = [item for item in service.stacks(region) if not wanted or item.status in wanted]
    items, following = page(stacks, given.get("NextToken"))
    summaries = [
        {
            **_stack_times(item),
            "TemplateDescription": item.revision.template.description,
            "DriftInformation": _NOT_CHECKED,
        }
        for item in items
    ]
    return {"StackSummaries": summaries, "NextToken": following}


def _stack_of(service: Service, region: str, given: Given) -> Stack:
    """The message of the event and resource actions for a missing stack, which the CDK CLI recognises."""
    stack = service.find(region, str(given["StackName"]))
    if stack is None:
        raise ValidationError(f"Stack [{given['StackName']}] does not exist")
    return stack


def describe_stack_events(service: Service, region: str, given: Given) -> dict[str, Any]:
    stack = _stack_of(service, region, given)
    items, following = newest_first(stack.events, given.get("NextToken"))
    return {"StackEvents": [_event(stack, item) for item in items], "NextToken": following}


def newest_first(events: Sequence[Event], token: str | None) -> tuple[list[Event], str | None]:
    """A page of events. The token counts from the oldest event, so it stays valid while new ones arrive."""
    told = position(token)
    end = len(events) if told is None else told
    start = max(0, end - PAGE)
    return list(reversed(events[start:end])), (str(start) if start else None)


def _event(stack: Stack, event: Event) -> dict[str, Any]:
    return {
        "StackId": stack.stack_id,
        "EventId": event.event_id,
        "StackName": stack.name,
        "OperationId": event.operation_id,
        **_event_core(event),
    }


def _event_core(event: Event) -> dict[str, Any]:
    return {
        "LogicalResourceId": event.logical_id,
        "PhysicalResourceId": event.physical_id,
        "ResourceType": event.resource_type,
        "Timestamp": event.time,
        "ResourceStatus": event.status,
        "ResourceStatusReason": event.reason,
        "ResourceProperties": json.dumps(event.properties, default=str) if event.properties else None,
    }


def describe_events(service: Service, region: str, given: Given) -> dict[str, Any]:
    """Events by operation. A change set that cannot be created fails at once, so it has none."""
    if given.get("ChangeSetName"):
        find_change_set(service, region, given)
        return {"OperationEvents": []}
    stacks = [_stack_of(service, region, given)] if given.get("StackName") else service.stacks(region)
    operation_id = given.get("OperationId")
    only_failed = bool((given.get("Filters") or {}).get("FailedEvents"))
    chosen = [
        (stack, event)
        for stack in stacks
        for event in reversed(stack.events)
        if operation_id in (None, event.operation_id) and (not only_failed or event.status.endswith("_FAILED"))
    ]
    items, following = page(chosen, given.get("NextToken"))
    return {"OperationEvents": [_operation_event(*item) for item in items], "NextToken": following}


def _operation_event(stack: Stack, event: Event) -> dict[str, Any]:
    failed = event.status.endswith("_FAILED") and event.logical_id != stack.name
    return {
        "EventId": event.event_id,
        "StackId": stack.stack_id,
        "OperationId": event.operation_id,
        "EventType": "PROVISIONING_ERROR" if failed else "PROGRESS_EVENT",
        **_event_core(event),
    }


def _resources(service: Service, region: str, given: Given) -> tuple[Stack, list[StackResource]]:
    if not given.get("StackName"):
        wanted = str(given.get("PhysicalResourceId", ""))
        for stack in service.stacks(region):
            if any(item.physical_id == wanted for item in list(stack.resources.values())):
                return stack, list(stack.resources.values())
        raise ValidationError(f"Stack for {wanted} does not exist")
    stack = _stack_of(service, region, given)
    logical_id = given.get("LogicalResourceId")
    # A copy: an operation may be adding resources in its own threads.
    chosen = [item for name, item in dict(stack.resources).items() if logical_id in (None, name)]
    if logical_id and not chosen:
        raise ValidationError(f"Resource {logical_id} does not exist for stack {stack.name}")
    return stack, chosen


def _resource(resource: StackResource, time_key: str) -> dict[str, Any]:
    return {
        "LogicalResourceId": resource.logical_id,
        "PhysicalResourceId": resource.physical_id,
        "ResourceType": resource.resource_type,
        time_key: resource.updated,
        "ResourceStatus": resource.status,
        "ResourceStatusReason": resource.reason,
        "DriftInformation": _RESOURCE_NOT_CHECKED,
    }


def describe_stack_resource(service: Service, region: str, given: Given) -> dict[str, Any]:
    stack, found = _resources(service, region, given)
    detail = {
        **_resource(found[0], "LastUpdatedTimestamp"),
        "StackName": stack.name,
        "StackId": stack.stack_id,
        "Metadata": json.dumps(found[0].definition.get("Metadata") or {}),
    }
    return {"StackResourceDetail": detail}


def describe_stack_resources(service: Service, region: str, given: Given) -> dict[str, Any]:
    stack, found = _resources(service, region, given)
    named = {"StackName": stack.name, "StackId": stack.stack_id}
    return {"StackResources": [{**_resource(item, "Timestamp"), **named} for item in found]}


def list_stack_resources(service: Service, region: str, given: Given) -> dict[str, Any]:
    _, found = _resources(service, region, given)
    items, following = page(found, given.get("NextToken"))
    summaries = [_resource(item, "LastUpdatedTimestamp") for item in items]
    return {"StackResourceSummaries": summaries, "NextToken": following}


def get_template(service: Service, region: str, given: Given) -> dict[str, Any]:
    if given.get("ChangeSetName"):
        text = find_change_set(service, region, given).revision.template.text
    else:
        text = service.get(region, str(given["StackName"])).revision.template.text
    return {"TemplateBody": text, "StagesAvailable": ["Original", "Processed"]}


def get_template_summary(service: Service, region: str, given: Given) -> dict[str, Any]:
    stack = service.get(region, str(given["StackName"])) if given.get("StackName") else None
    template = stack.revision.template if stack else templates.parse(template_text(service, region, given, None))
    capabilities = required_capabilities(template)
    return {
        "Parameters": [_declaration(name, spec) for name, spec in template.parameters.items()],
        "Description": template.description,
        "Capabilities": capabilities,
        "CapabilitiesReason": _capabilities_reason(template) if capabilities else None,
        "ResourceTypes": template.resource_types(),
        "Version": "2010-09-09",
        "Metadata": json.dumps(template.metadata) if template.metadata else None,
        "DeclaredTransforms": [],
        "ResourceIdentifierSummaries": [],
    }


def _declaration(name: str, spec: Any) -> dict[str, Any]:
    default = spec.get("Default")
    allowed = [str(item) for item in spec.get("AllowedValues") or []]
    return {
        "ParameterKey": name,
        "DefaultValue": None if default is None else str(default),
        "ParameterType": spec.get("Type", "String"),
        "NoEcho": str(spec.get("NoEcho", "")).lower() == "true",
        "Description": spec.get("Description"),
        "ParameterConstraints": {"AllowedValues": allowed},
    }


def _capabilities_reason(template: templates.Template) -> str:
    types = [name for name in template.resource_types() if name.startswith("AWS::IAM::")]
    return f"The following resource(s) require capabilities: [{', '.join(types)}]"


def validate_template(service: Service, region: str, given: Given) -> dict[str, Any]:
    template_types.check_known(templates.parse(template_text(service, region, given, None)), region)
    summary = get_template_summary(service, region, given)
    names = ("ParameterKey", "DefaultValue", "NoEcho", "Description")
    return {
        "Parameters": [{name: item[name] for name in names} for item in summary["Parameters"]],
        **{name: summary[name] for name in ("Description", "Capabilities", "CapabilitiesReason")},
    }


def list_exports(service: Service, region: str, given: Given) -> dict[str, Any]:
    items, following = page(service.exports(region), given.get("NextToken"))
    exports = [
        {"ExportingStackId": stack.stack_id, "Name": output.export_name, "Value": output.value}
        for stack, output in items
    ]
    return {"Exports": exports, "NextToken": following}


def list_imports(service: Service, region: str, given: Given) -> dict[str, Any]:
    names = service.importers(region, str(given["ExportName"]))
    if not names:
        raise ValidationError(f"Export '{given['ExportName']}' is not imported by any stack.")
    return {"Imports": names}


def detect_drift(service: Service, region: str, given: Given) -> dict[str, Any]:
    raise UnsupportedError("drift detection is not supported by the local cloud")


ACTIONS: dict[str, Action] = {
    "DescribeStacks": describe_stacks,
    "ListStacks": list_stacks,
    "DescribeStackEvents": describe_stack_events,
    "DescribeEvents": describe_events,
    "DescribeStackResource": describe_stack_resource,
    "DescribeStackResources": describe_stack_resources,
    "ListStackResources": list_stack_resources,
    "GetTemplate": get_template,
    "GetTemplateSummary": get_template_summary,
    "ValidateTemplate": validate_template,
    "ListExports": list_exports,
    "ListImports": list_imports,
    "DetectStackDrift": detect_drift,
    "DetectStackResourceDrift": detect_drift,
    "DescribeStackDriftDetectionStatus": detect_drift,
    "DescribeStackResourceDrifts": detect_drift,
}
