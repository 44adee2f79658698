"""Requests that CloudFormation refuses without looking at a template or a stack: names, tags, exclusive options."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

from botocore.exceptions import ClientError

from localcloud.cloudformation.errors import ValidationError
from localcloud.cloudformation.scopes import Clients
from localcloud.cloudformation.template import Template
from localcloud.validation import constraints

_NAME = re.compile(r"[a-zA-Z][-a-zA-Z0-9]*")
_LONGEST_NAME = 128
_LONGEST_PARAMETER = 4096


def check_model(shape: Any, given: Mapping[str, Any]) -> None:
    """Checks against the service's own model: required members, lengths, patterns, values."""
    found = list(constraints.violations(shape, given)) if shape is not None else []
    if found:
        plural = "s" if len(found) > 1 else ""
        raise ValidationError(f"{len(found)} validation error{plural} detected: {'; '.join(found)}")


def check_role(clients: Clients, region: str, arn: str | None) -> None:
    """Checks the role for the operation."""
    if not arn:
        return
    try:
        clients("iam", region).get_role(RoleName=arn.rpartition("/")[2])
    except ClientError:
        raise ValidationError(f"Role {arn} is invalid or cannot be assumed") from None


def check_name(value: str, member: str) -> None:
    """Checks the name of a new stack (`stackName`) or change set (`changeSetName`)."""
    if len(value) > _LONGEST_NAME:
        raise _constraint(value, member, f"Member must have length less than or equal to {_LONGEST_NAME}")
    if not _NAME.fullmatch(value):
        raise _constraint(value, member, f"Member must satisfy regular expression pattern: {_NAME.pattern}")


def check(given: Mapping[str, Any], template: Template) -> None:
    """Checks CreateStack, UpdateStack and CreateChangeSet."""
    sources = [name for name in ("TemplateBody", "TemplateURL") if given.get(name)]
    if len(sources) > 1 or (sources and given.get("UsePreviousTemplate")):
        raise ValidationError("Template Body and Template URL may not be specified together, nor with the previous one")
    if given.get("DisableRollback") is not None and given.get("OnFailure"):
        raise ValidationError("Only one of OnFailure and DisableRollback may be specified")
    if allowed := given.get("ResourceTypes"):
        _check_types(template, allowed)
    _check_parameters(given.get("Parameters") or ())
    check_tags(given.get("Tags") or ())
    for arn in given.get("NotificationARNs") or ():
        if not str(arn).startswith("arn:"):
            raise ValidationError(f"Invalid notification ARN: {arn}")
    for name in ("StackPolicyBody", "StackPolicyDuringUpdateBody"):
        check_policy(given.get(name))


def _check_types(template: Template, allowed: Any) -> None:
    wrong = [name for name in template.resource_types() if not any(fnmatchcase(name, each) for each in allowed)]
    if wrong:
        raise ValidationError(f"Resource type {wrong[0]} is not allowed by parameter ResourceTypes {list(allowed)}")


def _check_parameters(parameters: Any) -> None:
    names = [str(each.get("ParameterKey")) for each in parameters]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValidationError(f"Parameters: [{', '.join(twice)}] are given more than once")
    for each in parameters:
        if len(str(each.get("ParameterValue") or "").encode()) > _LONGEST_PARAMETER:
            raise ValidationError(
                f"Parameter '{each['ParameterKey']}' has a value of more than {_LONGEST_PARAMETER} bytes"
            )
        if each.get("UsePreviousValue") and each.get("ParameterValue"):
            raise ValidationError(
                f"Invalid input for parameter key {each['ParameterKey']}. Cannot specify usePreviousValue as true and "
                "non empty value for a parameter"
            )


def check_tags(tags: Any) -> None:
    keys = [str(tag.get("Key", "")) for tag in tags]
    if twice := sorted({key for key in keys if keys.count(key) > 1}):
        raise ValidationError(f"Duplicate tag keys found: [{', '.join(twice)}]")
    if any(key.lower().startswith("aws:") for key in keys):
        raise ValidationError("aws: prefixed tag key names are not allowed for external use.")


def check_policy(text: Any) -> None:
    """Checks a stack policy, given as text."""
    if text is None:
        return
    try:
        statements = json.loads(text)["Statement"]
        statements = statements if isinstance(statements, list) else [statements]
        fine = all(each["Effect"] in ("Allow", "Deny") and each.get("Principal") == "*" for each in statements)
    except (ValueError, KeyError, TypeError):
        fine = False
    if not fine:
        raise ValidationError("Error validating stack policy: Invalid stack policy")


def _constraint(value: str, member: str, wanted: str) -> ValidationError:
    return ValidationError(
        f"1 validation error detected: Value '{value}' at '{member}' failed to satisfy constraint: {wanted}"
    )
