"""CloudFormation's registry: the resource types and the schema of each.

The schemas are AWS's, as cfn-lint packages them with its corrections (https://github.com/aws-cloudformation/cfn-lint,
src/cfnlint/data/schemas). cfn-lint itself is not imported; a type's file is read on first use.
"""

from __future__ import annotations

import functools
import importlib.util
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

Schema = Mapping[str, Any]
_REGION = "us-east-1"


@functools.cache
def _folder() -> Path:
    """Raises ImportError if cfn-lint is not installed."""
    found = importlib.util.find_spec("cfnlint")
    if found is None or not found.submodule_search_locations:
        raise ImportError("cfn-lint, whose data the local cloud reads, is not installed: pip install cfn-lint")
    return Path(found.submodule_search_locations[0], "data", "schemas")


@functools.cache
def _files(region: str) -> dict[str, str]:
    """File name by type."""
    path = _folder() / "providers" / f"{region}.json"
    found: dict[str, str] = json.loads((path if path.exists() else path.with_stem(_REGION)).read_text())
    return found


@functools.cache
def of(resource_type: str, region: str = _REGION) -> Schema | None:
    """None if AWS has no such type in the region."""
    name = _files(region).get(resource_type)
    if name is None:
        return None
    schema: Schema = json.loads((_folder() / "resources" / f"{name}.json").read_text())
    return schema


def is_known(resource_type: str, region: str = _REGION) -> bool:
    """Whether AWS has such a type; a private or a custom one may exist."""
    return resource_type in _files(region) or not resource_type.startswith("AWS::")


def read_only(schema: Schema) -> frozenset[str]:
    """Properties that only CloudFormation sets."""
    return frozenset(_top_level(schema, "readOnlyProperties")) - frozenset(_top_level(schema, "createOnlyProperties"))


def names(schema: Schema) -> frozenset[str]:
    """Properties that identify a resource and can be set: a replacement cannot have the same values."""
    identity = frozenset(_top_level(schema, "primaryIdentifier")) & frozenset(
        _top_level(schema, "createOnlyProperties")
    )
    return identity - read_only(schema) if len(schema.get("primaryIdentifier", ())) == 1 else frozenset()


def _top_level(schema: Schema, key: str) -> Iterator[str]:
    for pointer in schema.get(key, ()):
        _, _, name = str(pointer).partition("/properties/")
        if name and "/" not in name:
            yield name


def has_attribute(schema: Schema, name: str) -> bool:
    """Whether GetAtt may use the name: a property, or one inside an object by its dotted name."""
    where: Any = schema
    for part in name.split("."):
        where = resolved(schema, where)
        if "properties" not in where:
            return where is not schema and ("object" in _types(where) or not where.get("type"))
        if part not in where["properties"]:
            return f"/properties/{name.replace('.', '/properties/')}" in schema.get("readOnlyProperties", ())
        where = where["properties"][part]
    return True


def resolved(root: Schema, part: Any) -> Any:
    """The part of the schema behind a reference."""
    while isinstance(part, Mapping) and "$ref" in part:
        found: Any = root
        for key in str(part["$ref"]).removeprefix("#/").split("/"):
            found = found[key.replace("~1", "/").replace("~0", "~")]
        part = found
    return part


def _types(part: Schema) -> list[str]:
    kinds = part.get("type", [])
    return [kinds] if isinstance(kinds, str) else list(kinds)
