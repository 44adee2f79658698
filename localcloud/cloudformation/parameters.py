"""Parameter values: defaults, previous values, types, constraints, and values in SSM."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from localcloud.cloudformation.errors import ValidationError
from localcloud.cloudformation.template import Template
from localcloud.validation import constraints

FetchSsm = Callable[[str], "str | None"]
_SSM_VALUE = re.compile(r"AWS::SSM::Parameter::Value<(.+)>")


@dataclass(frozen=True)
class ParameterValue:
    """`given`: the caller's value or the default; `value`: what Ref returns."""

    given: str
    value: Any
    from_ssm: bool = False
    hidden: bool = False


def resolve_all(
    template: Template,
    given: Iterable[Mapping[str, Any]],
    previous: Mapping[str, ParameterValue],
    fetch_ssm: FetchSsm,
) -> dict[str, ParameterValue]:
    """Values of all declared parameters.

    UsePreviousValue keeps what was *given* before, so an SSM parameter's value is read again.
    """
    by_name = {str(entry["ParameterKey"]): entry for entry in given}
    unknown = sorted(set(by_name) - set(template.parameters))
    if unknown:
        raise ValidationError(f"Parameters: [{', '.join(unknown)}] do not exist in the template")
    texts = {name: _given(name, spec, by_name.get(name), previous) for name, spec in template.parameters.items()}
    missing = sorted(name for name, text in texts.items() if text is None)
    if missing:
        raise ValidationError(f"Parameters: [{', '.join(missing)}] must have values")
    return {name: _value(name, spec, str(texts[name]), fetch_ssm) for name, spec in template.parameters.items()}


def _given(
    name: str, spec: Mapping[str, Any], entry: Mapping[str, Any] | None, previous: Mapping[str, ParameterValue]
) -> str | None:
    if entry is not None and entry.get("UsePreviousValue"):
        if name not in previous:
            raise ValidationError(f"Invalid input for parameter key {name}. Cannot specify usePreviousValue as true")
        return previous[name].given
    if entry is not None and entry.get("ParameterValue") is not None:
        return str(entry["ParameterValue"])
    default = spec.get("Default")
    if isinstance(default, bool):
        return str(default).lower()
    return None if default is None else str(default)


def _value(name: str, spec: Mapping[str, Any], text: str, fetch_ssm: FetchSsm) -> ParameterValue:
    kind = str(spec.get("Type", "String"))
    hidden = str(spec.get("NoEcho", "")).lower() == "true"
    in_ssm = _SSM_VALUE.fullmatch(kind)
    if in_ssm:
        stored = fetch_ssm(text)
        if stored is None:
            raise ValidationError(f"Unable to fetch parameters [{text}] from parameter store for this account.")
        return ParameterValue(text, _typed(in_ssm.group(1), stored), True, hidden)
    _check(name, spec, kind, text)
    return ParameterValue(text, _typed(kind, text), False, hidden)


def _typed(kind: str, text: str) -> Any:
    if kind == "CommaDelimitedList" or kind.startswith("List<"):
        return [item.strip() for item in text.split(",")] if text else []
    return text


def _check(name: str, spec: Mapping[str, Any], kind: str, text: str) -> None:
    hint = spec.get("ConstraintDescription")

    def refuse(reason: str) -> None:
        raise ValidationError(f"Parameter '{name}' must {hint}" if hint else f"Parameter '{name}' must {reason}")

    allowed = spec.get("AllowedValues")
    if allowed and text not in [str(item) for item in allowed]:
        refuse(f"be one of AllowedValues {[str(item) for item in allowed]}, got '{text}'")
    pattern = spec.get("AllowedPattern")
    fits = constraints.form_of(str(pattern)) if pattern else None
    if fits is not None and not fits(text):
        refuse(f"match pattern {pattern}, got '{text}'")
    if kind == "List<Number>":
        for item in _typed(kind, text):
            _check_number(spec, item, refuse)
    elif kind == "Number":
        _check_number(spec, text, refuse)
    elif not int(spec.get("MinLength", 0)) <= len(text) <= int(spec.get("MaxLength", 4096)):
        refuse(f"have {spec.get('MinLength', 0)} to {spec.get('MaxLength', 4096)} characters, got {len(text)}")


def _check_number(spec: Mapping[str, Any], text: str, refuse: Callable[[str], None]) -> None:
    try:
        number = float(text)
    except ValueError:
        refuse(f"be a number, got '{text}'")
        return
    low, high = float(spec.get("MinValue", "-inf")), float(spec.get("MaxValue", "inf"))
    if not low <= number <= high:
        refuse(f"be from {low:g} to {high:g}, got {text}")
