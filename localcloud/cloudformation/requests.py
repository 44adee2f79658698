"""What CloudFormation refuses in a request by itself: names, tags, options that exclude each other."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from localcloud.cloudformation.errors import ValidationError

_NAME = re.compile(r"[a-zA-Z][-a-zA-Z0-9]*")
_LONGEST_NAME = 128
_MOST_TAGS, _LONGEST_KEY, _LONGEST_VALUE = 50, 128, 256
_MOST_TOPICS = 5
_LONGEST_PARAMETER = 4096
_LONGEST_POLICY = 16_384
_CAPABILITIES = ("CAPABILITY_IAM", "CAPABILITY_NAMED_IAM", "CAPABILITY_AUTO_EXPAND")
_ON_FAILURE = ("DO_NOTHING", "ROLLBACK", "DELETE")


def check_name(value: str, member: str) -> None:
    """Of a stack (`stackName`) or a change set (`changeSetName`) that shall be made."""
    if len(value) > _LONGEST_NAME:
        raise _constraint(value, member, f"Member must have length less than or equal to {_LONGEST_NAME}")
    if not _NAME.fullmatch(value):
        raise _constraint(value, member, f"Member must satisfy regular expression pattern: {_NAME.pattern}")


def check(given: Mapping[str, Any]) -> None:
    """Of CreateStack, UpdateStack and CreateChangeSet."""
    sources = [name for name in ("TemplateBody", "TemplateURL") if given.get(name)]
    if len(sources) > 1 or (sources and given.get("UsePreviousTemplate")):
        raise ValidationError("Template Body and Template URL may not be specified together, nor with the previous one")
    if given.get("DisableRollback") is not None and given.get("OnFailure"):
        raise ValidationError("Only one of OnFailure and DisableRollback may be specified")
    if given.get("OnFailure") not in (None, *_ON_FAILURE):
        raise _constraint(
            given["OnFailure"], "onFailure", f"Member must satisfy enum value set: {_listed(_ON_FAILURE)}"
        )
    for each in given.get("Capabilities") or ():
        if each not in _CAPABILITIES:
            wanted = f"Member must satisfy enum value set: {_listed(_CAPABILITIES)}"
            raise _constraint(str(given["Capabilities"]), "capabilities", wanted)
    if len(given.get("NotificationARNs") or ()) > _MOST_TOPICS:
        raise _constraint(
            "notificationARNs", "notificationARNs", f"Member must have length less than or equal to {_MOST_TOPICS}"
        )
    if (minutes := given.get("TimeoutInMinutes")) is not None and int(minutes) < 1:
        raise _constraint(str(minutes), "timeoutInMinutes", "Member must have value greater than or equal to 1")
    _check_parameters(given.get("Parameters") or ())
    check_tags(given.get("Tags") or ())
    for name in ("StackPolicyBody", "StackPolicyDuringUpdateBody"):
        check_policy(given.get(name))


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
    if len(tags) > _MOST_TAGS:
        raise _constraint("tags", "tags", f"Member must have length less than or equal to {_MOST_TAGS}")
    keys = [str(tag.get("Key", "")) for tag in tags]
    if twice := sorted({key for key in keys if keys.count(key) > 1}):
        raise ValidationError(f"Duplicate tag keys found: [{', '.join(twice)}]")
    for tag in tags:
        key, value = str(tag.get("Key", "")), str(tag.get("Value", ""))
        if not 1 <= len(key) <= _LONGEST_KEY:
            raise _constraint(key, "tags.member.key", f"Member must have length from 1 to {_LONGEST_KEY}")
        if len(value) > _LONGEST_VALUE:
            raise _constraint(
                value, "tags.member.value", f"Member must have length less than or equal to {_LONGEST_VALUE}"
            )
        if key.lower().startswith("aws:"):
            raise ValidationError("aws: prefixed tag key names are not allowed for external use.")


def check_policy(text: Any) -> None:
    """A stack policy, as text."""
    if text is None:
        return
    if len(str(text).encode()) > _LONGEST_POLICY:
        raise _constraint(
            "stackPolicyBody", "stackPolicyBody", f"Member must have length less than or equal to {_LONGEST_POLICY}"
        )
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


def _listed(values: tuple[str, ...]) -> str:
    return f"[{', '.join(values)}]"
