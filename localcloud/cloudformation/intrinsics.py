"""Evaluates intrinsic functions."""

from __future__ import annotations

import base64
import ipaddress
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from localcloud.cloudformation.errors import ValidationError
from localcloud.cloudformation.template import SUB_VARIABLE


class _Marker:
    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


NO_VALUE = _Marker("AWS::NoValue")
# A value that exists only after a change set has been executed. Used only during planning.
UNKNOWN = _Marker("{{changeSet:KNOWN_AFTER_APPLY}}")


@dataclass(frozen=True)
class Scope:
    """The sources of names' values. Parameters include the pseudo parameters."""

    parameters: Mapping[str, Any]
    mappings: Mapping[str, Any]
    conditions: Mapping[str, Any]
    reference: Callable[[str], Any]
    attribute: Callable[[str, str], Any]
    imported: Callable[[str], Any]
    zones: Callable[[str], list[str]]
    dynamic: Callable[[str], Any] = lambda text: text

    def condition(self, name: str) -> bool:
        if name not in self.conditions:
            raise ValidationError(f"Template error: unresolved condition dependency {name}")
        return bool(resolve(self.conditions[name], self))


def resolve(value: Any, scope: Scope) -> Any:
    """The plain value of a template value; keys and items with the value AWS::NoValue are removed."""
    if isinstance(value, str):
        return scope.dynamic(value) if "{{resolve:" in value else value
    if isinstance(value, list):
        items = (resolve(item, scope) for item in value)
        return [item for item in items if item is not NO_VALUE]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        ((name, argument),) = value.items()
        if name in _FUNCTIONS and not (name == "Condition" and not isinstance(argument, str)):  # policies have one too
            return _apply(name, argument, scope)
        if name.startswith("Fn::"):
            raise ValidationError(f"Template error: {name} is not supported by the local cloud")
    resolved = {key: resolve(item, scope) for key, item in value.items()}
    return {key: item for key, item in resolved.items() if item is not NO_VALUE}


def _apply(name: str, argument: Any, scope: Scope) -> Any:
    try:
        return _FUNCTIONS[name](argument, scope)
    except (TypeError, ValueError, IndexError, KeyError, AttributeError) as error:
        raise ValidationError(f"Template error: {name} is malformed: {json.dumps(argument, default=str)}") from error


def contains_unknown(value: Any) -> bool:
    if isinstance(value, dict):
        return any(contains_unknown(item) for item in value.values())
    if isinstance(value, list):
        return any(contains_unknown(item) for item in value)
    return value is UNKNOWN


def as_text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return ",".join(as_text(item) for item in value)
    return str(value)


def _ref(name: Any, scope: Scope) -> Any:
    if not isinstance(name, str):
        raise ValidationError("Template format error: Every Ref object must have a single String value.")
    if name == "AWS::NoValue":
        return NO_VALUE
    if name in scope.parameters:
        return scope.parameters[name]
    return scope.reference(name)


def _get_att(argument: Any, scope: Scope) -> Any:
    parts = argument.split(".", 1) if isinstance(argument, str) else list(argument)
    if len(parts) != 2:
        raise ValidationError("Template error: every Fn::GetAtt object requires two non-empty parameters")
    return scope.attribute(parts[0], as_text(resolve(parts[1], scope)))


def _sub(argument: Any, scope: Scope) -> Any:
    text, given = (argument, {}) if isinstance(argument, str) else (argument[0], argument[1])
    variables = {name: resolve(value, scope) for name, value in given.items()}

    def value_of(name: str) -> Any:
        if name in variables:
            return variables[name]
        return _get_att(name, scope) if "." in name else _ref(name, scope)

    values = {name: value_of(name) for name in SUB_VARIABLE.findall(text)}
    if contains_unknown(list(values.values())):
        return UNKNOWN
    result = SUB_VARIABLE.sub(lambda match: as_text(values[match.group(1)]), text)
    return resolve(re.sub(r"\$\{!([^{}]*)\}", r"${\1}", result), scope)


def _join(argument: Any, scope: Scope) -> Any:
    separator, items = argument[0], resolve(argument[1], scope)
    if contains_unknown(items):
        return UNKNOWN
    if not isinstance(items, list):
        raise ValidationError("Template error: Fn::Join requires a delimiter and a list of values")
    return resolve(separator.join(as_text(item) for item in items), scope)


def _select(argument: Any, scope: Scope) -> Any:
    index, items = resolve(argument[0], scope), resolve(argument[1], scope)
    if contains_unknown([index]) or items is UNKNOWN:
        return UNKNOWN
    if not isinstance(items, list) or not 0 <= int(index) < len(items):
        raise ValidationError(f"Template error: Fn::Select cannot select nonexistent value at index {index}")
    return items[int(index)]


def _split(argument: Any, scope: Scope) -> Any:
    text = resolve(argument[1], scope)
    if isinstance(text, (dict, list)):
        raise ValidationError("Template error: every Fn::Split object requires two string parameters")
    return UNKNOWN if text is UNKNOWN else as_text(text).split(argument[0])


def _if(argument: Any, scope: Scope) -> Any:
    name, when_true, when_false = argument
    return resolve(when_true if scope.condition(name) else when_false, scope)


def _equals(argument: Any, scope: Scope) -> bool:
    left, right = (resolve(item, scope) for item in argument)
    return as_text(left) == as_text(right)


def _and(argument: Sequence[Any], scope: Scope) -> bool:
    _check_count("Fn::And", argument)
    return all(resolve(item, scope) for item in argument)


def _check_count(name: str, argument: Sequence[Any]) -> None:
    if not isinstance(argument, list) or not 2 <= len(argument) <= 10:
        raise ValidationError(f"Template error: every {name} object requires a list of at least 2 and at most 10 items")


def _or(argument: Sequence[Any], scope: Scope) -> bool:
    _check_count("Fn::Or", argument)
    return any(resolve(item, scope) for item in argument)


def _not(argument: Sequence[Any], scope: Scope) -> bool:
    if not isinstance(argument, list) or len(argument) != 1:
        raise ValidationError("Template error: Fn::Not object requires a list argument with exactly 1 element")
    return not resolve(argument[0], scope)


def _contains(argument: Sequence[Any], scope: Scope) -> bool:
    items, value = (resolve(item, scope) for item in argument)
    return as_text(value) in [as_text(item) for item in items]


def _find_in_map(argument: Sequence[Any], scope: Scope) -> Any:
    name, first, second = (as_text(resolve(item, scope)) for item in argument[:3])
    try:
        return resolve(scope.mappings[name][first][second], scope)
    except KeyError:
        if len(argument) > 3:
            return resolve(argument[3]["DefaultValue"], scope)
        raise ValidationError(f"Template error: Unable to get mapping for {name}::{first}::{second}") from None


def _base64(argument: Any, scope: Scope) -> Any:
    text = resolve(argument, scope)
    if isinstance(text, (dict, list)):
        raise ValidationError("Template error: every Fn::Base64 object must have a String-typed value.")
    return UNKNOWN if text is UNKNOWN else base64.b64encode(as_text(text).encode()).decode()


def _get_azs(argument: Any, scope: Scope) -> list[str]:
    return scope.zones(as_text(resolve(argument, scope)) or as_text(scope.parameters["AWS::Region"]))


def _cidr(argument: Sequence[Any], scope: Scope) -> Any:
    block, count, *bits = (resolve(item, scope) for item in argument)
    if block is UNKNOWN:
        return UNKNOWN
    network = ipaddress.ip_network(block)
    prefix = network.max_prefixlen - int(bits[0] if bits else 8)
    subnets = network.subnets(new_prefix=prefix)
    try:
        return [str(next(subnets)) for _ in range(int(count))]
    except StopIteration:
        raise ValidationError(f"Template error: Fn::Cidr cannot cut {count} /{prefix} out of {block}") from None


def _import_value(argument: Any, scope: Scope) -> Any:
    return scope.imported(as_text(resolve(argument, scope)))


def _length(argument: Any, scope: Scope) -> Any:
    items = resolve(argument, scope)
    return UNKNOWN if items is UNKNOWN else len(items)


_FUNCTIONS: dict[str, Callable[[Any, Scope], Any]] = {
    "Ref": _ref,
    "Condition": lambda name, scope: scope.condition(name),
    "Fn::GetAtt": _get_att,
    "Fn::Sub": _sub,
    "Fn::Join": _join,
    "Fn::Select": _select,
    "Fn::Split": _split,
    "Fn::If": _if,
    "Fn::Equals": _equals,
    "Fn::And": _and,
    "Fn::Or": _or,
    "Fn::Not": _not,
    "Fn::Contains": _contains,
    "Fn::FindInMap": _find_in_map,
    "Fn::Base64": _base64,
    "Fn::GetAZs": _get_azs,
    "Fn::Cidr": _cidr,
    "Fn::ImportValue": _import_value,
    "Fn::Length": _length,
}
