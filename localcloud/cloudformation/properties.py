"""Checks a resource's properties against the schema of its type, with the messages of CloudFormation's validator.

CloudFormation's provider framework uses https://github.com/everit-org/json-schema, whose messages these are. Templates
may write numbers and booleans as text and vice versa; CloudFormation accepts both. A value that exists only after
another resource is created always passes.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from localcloud.cloudformation import schemas
from localcloud.cloudformation.errors import ResourceError
from localcloud.cloudformation.intrinsics import UNKNOWN, contains_unknown
from localcloud.cloudformation.schemas import Schema

_INTEGER = re.compile(r"[-+]?\d+")


def violations(resource_type: str, region: str, properties: Mapping[str, Any]) -> list[str]:
    schema = schemas.of(resource_type, region)
    if schema is None:
        return []
    extraneous = [f"#: extraneous key [{name}] is not permitted" for name in sorted(schemas.read_only(schema))
                  if name in properties]  # fmt: skip
    return [*extraneous, *_check(schema, schema, properties, "#")]


def explain(logical_id: str, found: list[str]) -> str:
    return f"Properties validation failed for resource {logical_id} with message:\n" + "\n".join(found)


def require(resource_type: str, region: str, logical_id: str, properties: Mapping[str, Any]) -> None:
    """Raises ResourceError."""
    if found := violations(resource_type, region, properties):
        raise ResourceError(explain(logical_id, found))


def _check(root: Schema, schema: Any, value: Any, path: str) -> Iterator[str]:
    schema = schemas.resolved(root, schema)
    if value is UNKNOWN or not isinstance(schema, Mapping):
        return
    kinds = schema.get("type")
    wanted = [kinds] if isinstance(kinds, str) else list(kinds or ())
    if wanted and not any(_FITS[kind](value) for kind in wanted if kind in _FITS):
        yield f"{path}: expected type: {_NAMES[wanted[0]]}, found: {_name_of(value)}"
        return
    if isinstance(value, Mapping):
        yield from _check_object(root, schema, value, path)
    elif isinstance(value, list):
        yield from _check_list(root, schema, value, path)
    else:
        yield from _check_scalar(schema, value, path, wanted)
    yield from _check_combinations(root, schema, value, path)


def _check_object(root: Schema, schema: Schema, value: Mapping[str, Any], path: str) -> Iterator[str]:
    known = schema.get("properties") or {}
    patterns = schema.get("patternProperties") or {}
    for name in schema.get("required") or ():
        if name not in value:
            yield f"{path}: required key [{name}] not found"
    for name, item in value.items():
        if name in known:
            yield from _check(root, known[name], item, f"{path}/{name}")
            continue
        fitting = [each for pattern, each in patterns.items() if _matches(pattern, str(name))]
        for each in fitting:
            yield from _check(root, each, item, f"{path}/{name}")
        more = schema.get("additionalProperties")
        if not fitting and more is False:
            yield f"{path}: extraneous key [{name}] is not permitted"
        elif not fitting and isinstance(more, Mapping):
            yield from _check(root, more, item, f"{path}/{name}")
    yield from _check_together(schema, value, path)


def _check_together(schema: Schema, value: Mapping[str, Any], path: str) -> Iterator[str]:
    """Which keys require or exclude each other."""
    for name, needed in (schema.get("dependentRequired") or {}).items():
        for other in needed if name in value else ():
            if other not in value:
                yield f"{path}: property [{other}] is required"
    for name, excluded in (schema.get("dependentExcluded") or {}).items():
        for other in excluded if name in value else ():
            if other in value and name < other:
                yield f"{path}: [{name}] and [{other}] cannot be used together"
    one = schema.get("requiredXor")
    if one and sum(name in value for name in one) != 1:
        yield f"{path}: exactly one of [{', '.join(one)}] is required"
    some = schema.get("requiredOr")
    if some and not any(name in value for name in some):
        yield f"{path}: at least one of [{', '.join(some)}] is required"


def _check_list(root: Schema, schema: Schema, value: list[Any], path: str) -> Iterator[str]:
    if contains_unknown([item for item in value if item is UNKNOWN]):
        return  # it may become a list of another length
    fewest, most = schema.get("minItems"), schema.get("maxItems")
    if fewest is not None and len(value) < fewest:
        yield f"{path}: expected minimum item count: {fewest}, found: {len(value)}"
    if most is not None and len(value) > most:
        yield f"{path}: expected maximum item count: {most}, found: {len(value)}"
    if schema.get("uniqueItems") and any(item in value[:index] for index, item in enumerate(value)):
        yield f"{path}: array items are not unique"
    for index, item in enumerate(value):
        yield from _check(root, schema.get("items"), item, f"{path}/{index}")


def _check_scalar(schema: Schema, value: Any, path: str, wanted: list[str]) -> Iterator[str]:
    text = _text(value)
    if "enum" in schema and text not in [_text(each) for each in schema["enum"]]:
        yield f"{path}: {text} is not a valid enum value"
    if "enumCaseInsensitive" in schema and text.lower() not in [
        str(each).lower() for each in schema["enumCaseInsensitive"]
    ]:
        yield f"{path}: {text} is not a valid enum value"
    if "const" in schema and text != _text(schema["const"]):
        yield f"{path}: {text} is not a valid enum value"
    if "string" in wanted or not wanted:
        yield from _check_text(schema, text, path)
    if {"integer", "number"} & set(wanted) and _is_number(value):
        yield from _check_number(schema, float(value), text, path)


def _check_text(schema: Schema, text: str, path: str) -> Iterator[str]:
    shortest, longest = schema.get("minLength"), schema.get("maxLength")
    if shortest is not None and len(text) < shortest:
        yield f"{path}: expected minLength: {shortest}, actual: {len(text)}"
    if longest is not None and len(text) > longest:
        yield f"{path}: expected maxLength: {longest}, actual: {len(text)}"
    if "pattern" in schema and "{{resolve:" not in text and not _matches(schema["pattern"], text):
        yield f"{path}: string [{text}] does not match pattern {schema['pattern']}"


def _check_number(schema: Schema, number: float, text: str, path: str) -> Iterator[str]:
    if "minimum" in schema and number < schema["minimum"]:
        yield f"{path}: {text} is not greater or equal to {schema['minimum']}"
    if "maximum" in schema and number > schema["maximum"]:
        yield f"{path}: {text} is not less or equal to {schema['maximum']}"


def _check_combinations(root: Schema, schema: Schema, value: Any, path: str) -> Iterator[str]:
    for each in schema.get("allOf") or ():
        yield from _check(root, each, value, path)
    for key in ("anyOf", "oneOf"):
        branches = schema.get(key) or ()
        if branches and not any(not list(_check(root, each, value, path)) for each in branches):
            yield f"{path}: 0 subschemas matched instead of one"


@functools.lru_cache(maxsize=1024)
def _pattern(pattern: str) -> re.Pattern[str] | None:
    try:
        return re.compile(pattern)
    except re.error:  # Java accepts forms that Python does not
        return None


def _matches(pattern: str, text: str) -> bool:
    compiled = _pattern(pattern)
    return compiled is None or compiled.search(text) is not None


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return not isinstance(value, bool)


def _is_scalar(value: Any) -> bool:
    return isinstance(value, (str, int, float, bool))


def _is_integer(value: Any) -> bool:
    return _is_number(value) and (_INTEGER.fullmatch(str(value)) is not None or float(value).is_integer())


def _is_boolean(value: Any) -> bool:
    return _is_scalar(value) and _text(value).lower() in ("true", "false")


def _may_be_number(check: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: _is_dynamic(value) or check(value)


def _is_dynamic(value: Any) -> bool:
    """A reference that is resolved when the resource is created."""
    return isinstance(value, str) and "{{resolve:" in value


_FITS: dict[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, Mapping),
    "array": lambda value: isinstance(value, list),
    "string": _is_scalar,
    "integer": _may_be_number(_is_integer),
    "number": _may_be_number(_is_number),
    "boolean": _may_be_number(_is_boolean),
    "null": lambda value: value is None,
}
_NAMES = {
    "object": "JSONObject", "array": "JSONArray", "string": "String", "integer": "Integer", "number": "Number",
    "boolean": "Boolean", "null": "Null",
}  # fmt: skip


def _name_of(value: Any) -> str:
    if isinstance(value, bool):
        return "Boolean"
    kinds: dict[type, str] = {dict: "JSONObject", list: "JSONArray", str: "String", int: "Integer", float: "BigDecimal"}
    return kinds.get(type(value), "Null")
