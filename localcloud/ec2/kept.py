"""Records of the resource kinds that moto lacks: plain dictionaries in the API's spelling, per account and region."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from moto.ec2.models import EC2Backend
from moto.ec2.responses import EC2Response

Record = dict[str, Any]
_kept: WeakKeyDictionary[EC2Backend, dict[str, dict[str, Record]]] = WeakKeyDictionary()


def of(backend: EC2Backend, kind: str) -> dict[str, Record]:
    """The records of a kind by key; callers change it in place."""
    return _kept.setdefault(backend, {}).setdefault(kind, {})


def find(backend: EC2Backend, resource_id: str) -> Record | None:
    """The record with this id, of any kind."""
    kinds = _kept.get(backend, {}).values()
    return next((record for kind in kinds for record in kind.values() if resource_id in record.values()), None)


def tags(response: EC2Response, resource_type: str) -> list[dict[str, str]]:
    """The request's tags for `resource_type`, in the form of records."""
    given = response._parse_tag_specification().get(resource_type, {})
    return [{"Key": key, "Value": value} for key, value in given.items()]


def filtered(records: list[Record], filters: dict[str, Any]) -> list[Record]:
    """EC2's filters for records: `tag:KEY`, `tag-key`, and any field in kebab case."""
    return [record for record in records if all(_matches(record, name, values) for name, values in filters.items())]


def _matches(record: Record, name: str, values: list[str]) -> bool:
    held = {tag["Key"]: tag["Value"] for tag in record.get("Tags", [])}
    if name.startswith("tag:"):
        return held.get(name.removeprefix("tag:")) in values
    if name == "tag-key":
        return any(key in values for key in held)
    return str(record.get("".join(part.capitalize() for part in name.split("-")))) in values
