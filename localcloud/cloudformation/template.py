"""Parses a template (JSON or YAML with short tags) into a `Template`, and checks it statically."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml  # type: ignore[import-untyped]

from localcloud.cloudformation import template_rules
from localcloud.cloudformation.errors import TransformError, ValidationError

PSEUDO_PARAMETERS = frozenset(
    f"AWS::{name}"
    for name in (
        "AccountId", "NotificationARNs", "NoValue", "Partition", "Region", "StackId", "StackName", "URLSuffix",
    )
)  # fmt: skip
_SECTIONS = {
    "AWSTemplateFormatVersion", "Description", "Metadata", "Parameters", "Rules", "Mappings",
    "Conditions", "Transform", "Resources", "Outputs", "Hooks",
}  # fmt: skip


@dataclass(frozen=True)
class Template:
    """A parsed template; sections are plain dictionaries."""

    text: str
    resources: Mapping[str, Mapping[str, Any]]
    parameters: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    mappings: Mapping[str, Any] = field(default_factory=dict)
    conditions: Mapping[str, Any] = field(default_factory=dict)
    outputs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    rules: Mapping[str, Any] = field(default_factory=dict)
    description: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def resource_types(self) -> list[str]:
        return sorted({str(resource["Type"]) for resource in self.resources.values()})


EMPTY = Template(text="{}", resources={})


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """Safe YAML that keeps dates as text, such as the policy version "2012-10-17"."""


_Loader.yaml_implicit_resolvers = {
    first: [entry for entry in entries if entry[0] != "tag:yaml.org,2002:timestamp"]
    for first, entries in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _short_tag(loader: Any, suffix: str, node: Any) -> dict[str, Any]:
    if isinstance(node, yaml.ScalarNode):
        value: Any = loader.construct_scalar(node)
    elif isinstance(node, yaml.SequenceNode):
        value = loader.construct_sequence(node, deep=True)
    else:
        value = loader.construct_mapping(node, deep=True)
    if suffix in ("Ref", "Condition"):
        return {suffix: value}
    if suffix == "GetAtt" and isinstance(value, str):
        value = value.split(".", 1)
    return {f"Fn::{suffix}": value}


_Loader.add_multi_constructor("!", _short_tag)


def load(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        pass
    try:
        return yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as error:
        raise ValidationError(f"Template format error: not valid JSON or YAML. {error}") from None


def parse(text: str) -> Template:
    """Raises ValidationError with CloudFormation's message for an invalid template."""
    body = load(text)
    if not isinstance(body, dict):
        raise ValidationError("Template format error: unsupported structure.")
    unknown = sorted(set(body) - _SECTIONS)
    if unknown:
        raise ValidationError(f"Invalid template property or properties {unknown}")
    if body.get("Transform"):
        raise TransformError(f"Transform {body['Transform']} is not supported by the local cloud")
    resources = body.get("Resources") or {}
    if not resources or not isinstance(resources, dict):
        raise ValidationError("Template format error: At least one Resources member must be defined.")
    template_rules.check(body)
    template = Template(
        text=text,
        resources=resources,
        parameters=body.get("Parameters") or {},
        mappings=body.get("Mappings") or {},
        conditions=body.get("Conditions") or {},
        outputs=body.get("Outputs") or {},
        rules=body.get("Rules") or {},
        description=body.get("Description"),
        metadata=body.get("Metadata") or {},
    )
    try:
        _check(template)
    except (TypeError, ValueError, IndexError, AttributeError) as error:
        raise ValidationError(f"Template error: a function of the template is malformed: {error}") from error
    return template


def _check(template: Template) -> None:
    known = set(template.resources) | set(template.parameters)
    for section in ("Resources", "Outputs"):
        _check_references(template, section, known)
    _check_conditions(template)
    for name, resource in template.resources.items():
        told = [resource.get("Properties"), {"DependsOn": resource.get("DependsOn") or []}]
        if any(target == name for _, target in references(told)):
            raise ValidationError(f"Circular dependency between resources: [{name}]")


def _check_conditions(template: Template) -> None:
    """They can only use parameters, and are evaluated before anything is created."""
    told = {name for _, name in references(dict(template.conditions))}
    if wrong := sorted(told - set(template.parameters) - PSEUDO_PARAMETERS):
        raise ValidationError(
            f"Template format error: Unresolved dependencies [{', '.join(wrong)}]. Cannot reference resources in the "
            "Conditions block of the template"
        )
    _check_circles(dict(template.conditions))
    for section in (template.resources, template.outputs):
        for name, each in section.items():
            condition = each.get("Condition")
            if condition is not None and condition not in template.conditions:
                raise ValidationError(
                    f"Template format error: Unresolved condition dependency {condition} of {name} in the template"
                )


def _check_circles(conditions: dict[str, Any]) -> None:
    """Conditions may name each other, but not themselves."""
    named = {name: set(_conditions_of(value)) & set(conditions) for name, value in conditions.items()}
    while free := [name for name, others in named.items() if not others]:
        for name in free:
            del named[name]
        named = {name: others - set(free) for name, others in named.items()}
    if named:
        raise ValidationError(f"Template format error: Circular dependency between conditions: [{', '.join(named)}]")


def _conditions_of(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "Condition" and isinstance(inner, str):
                yield inner
            yield from _conditions_of(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _conditions_of(inner)


def _check_references(template: Template, section: str, known: set[str]) -> None:
    body = template.resources if section == "Resources" else template.outputs
    missing = sorted(
        {
            name
            for entry in body.values()
            for kind, name in references(entry)
            if name not in known and not (kind == "Ref" and name in PSEUDO_PARAMETERS)
        }
    )
    if missing:
        raise ValidationError(
            f"Template format error: Unresolved resource dependencies [{', '.join(missing)}] "
            f"in the {section} block of the template"
        )


def references(value: Any) -> Iterator[tuple[str, str]]:
    """Every ("Ref" | "GetAtt" | "DependsOn", name) in the definition of a resource or an output."""
    if isinstance(value, list):
        for item in value:
            yield from references(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _references_of(key, item)


def _references_of(key: str, item: Any) -> Iterator[tuple[str, str]]:
    if key == "Ref" and isinstance(item, str):
        yield "Ref", item
    elif key == "Fn::GetAtt":
        yield "GetAtt", item.split(".")[0] if isinstance(item, str) else str(item[0])
    elif key == "Fn::Sub":
        yield from _references_of_sub(item)
    elif key == "DependsOn" and isinstance(item, (str, list)):
        for name in [item] if isinstance(item, str) else item:
            yield "DependsOn", str(name)
    else:
        yield from references(item)


def _references_of_sub(item: Any) -> Iterator[tuple[str, str]]:
    text, variables = (item, {}) if isinstance(item, str) else (item[0], item[1] if len(item) > 1 else {})
    yield from references(list(variables.values()))
    for name in SUB_VARIABLE.findall(text):
        base, dot, _ = name.partition(".")
        if name not in variables and base not in variables:
            yield ("GetAtt" if dot else "Ref"), base


SUB_VARIABLE = re.compile(r"\$\{([^!{}][^{}]*)\}")
