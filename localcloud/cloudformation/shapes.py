"""Converts CloudFormation properties to the input of an API operation, by botocore's model.

Templates may write numbers and booleans as text, and some services' member names begin with a small letter where
CloudFormation's do not. Everything else must match, so a misspelt property is refused as CloudFormation refuses it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from localcloud.cloudformation.errors import ResourceError


def fit(client: Any, method: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """`values` as the keyword arguments of `client.<method>`, without members that are None."""
    operation = client.meta.service_model.operation_model(client.meta.method_to_api_mapping[method])
    if operation.input_shape is None:
        return {}
    present = {key: value for key, value in values.items() if value is not None and not _no_tags(key, value)}
    result: dict[str, Any] = _structure(operation.input_shape, present, "")
    return result


def _no_tags(key: str, value: Any) -> bool:
    """Several APIs refuse an empty list of tags."""
    return key.lower() == "tags" and not value


def _structure(shape: Any, value: Any, path: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise ResourceError(f"Properties validation failed: {path or '/'} expected an object, got {value!r}")
    members = {name.lower(): name for name in shape.members}
    result = {}
    for key, item in value.items():
        name = key if key in shape.members else members.get(str(key).lower())
        if name is None:
            raise ResourceError(
                f"Properties validation failed: {path}/{key} extraneous key is not permitted "
                f"(allowed: {', '.join(shape.members)})"
            )
        result[name] = _fit(shape.members[name], item, f"{path}/{name}")
    return result


def _fit(shape: Any, value: Any, path: str) -> Any:
    kind = shape.type_name
    if kind == "structure":
        return _structure(shape, value, path)
    if kind == "list":
        items = value if isinstance(value, list) else [value]
        return [_fit(shape.member, item, f"{path}/{index}") for index, item in enumerate(items)]
    if kind == "map" and isinstance(value, Mapping):
        return {str(key): _fit(shape.value, item, f"{path}/{key}") for key, item in value.items()}
    return _scalar(kind, value, path)


def _scalar(kind: str, value: Any, path: str) -> Any:
    try:
        if kind in ("integer", "long"):
            return int(value)
        if kind in ("float", "double"):
            return float(value)
        if kind == "boolean":
            return boolean(value)
        if kind == "string":
            return text(value)
    except ValueError:
        raise ResourceError(f"Properties validation failed: {path} expected {kind}, got {value!r}") from None
    return value


def boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if str(value).lower() in ("true", "false"):
        return str(value).lower() == "true"
    raise ValueError(value)


def text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (Mapping, list)):
        return json.dumps(value)
    return str(value)
