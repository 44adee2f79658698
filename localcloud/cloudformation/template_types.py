"""A template's resource types: whether AWS has them, whether the local cloud supports them, and their attributes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from localcloud.cloudformation import schemas
from localcloud.cloudformation.errors import ValidationError
from localcloud.cloudformation.resources import supported_types
from localcloud.cloudformation.template import SUB_VARIABLE, Template


def check_known(template: Template, region: str) -> None:
    """Raises ValidationError, as AWS does."""
    unknown = [name for name in template.resource_types() if not schemas.is_known(name, region)]
    if unknown:
        raise ValidationError(f"Template format error: Unrecognized resource types: [{', '.join(unknown)}]")
    for resource_id, attribute in _attributes([dict(template.resources), dict(template.outputs)]):
        resource = template.resources.get(resource_id)
        schema = schemas.of(str(resource["Type"]), region) if resource else None
        if schema and not schemas.has_attribute(schema, attribute):
            raise ValidationError(
                f"Template error: resource {resource_id} does not support attribute type {attribute} in Fn::GetAtt"
            )


def check_supported(template: Template) -> None:
    """Raises ValidationError before any resource is created, for a stack that could never be complete."""
    missing = sorted(set(template.resource_types()) - set(supported_types()))
    if missing:
        raise ValidationError(
            f"Resource types that the local cloud does not support: [{', '.join(missing)}]; it supports "
            f"{len(supported_types())} types, those of localcloud/cloudformation/resources/"
        )


def _attributes(value: Any) -> Iterator[tuple[str, str]]:
    """The names in every GetAtt and ${Resource.Attribute}, except those that are computed."""
    if isinstance(value, list):
        for item in value:
            yield from _attributes(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key == "Fn::GetAtt":
                resource_id, _, attribute = item.partition(".") if isinstance(item, str) else (item[0], "", item[-1])
                if isinstance(attribute, str):
                    yield str(resource_id), attribute
            elif key == "Fn::Sub":
                yield from _substituted(item)
            else:
                yield from _attributes(item)


def _substituted(item: Any) -> Iterator[tuple[str, str]]:
    text, given = (item, {}) if isinstance(item, str) else (item[0], item[1] if len(item) > 1 else {})
    yield from _attributes(given)
    for name in SUB_VARIABLE.findall(text):
        resource_id, dot, attribute = name.partition(".")
        if dot and name not in given:
            yield resource_id, attribute
