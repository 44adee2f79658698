"""What botocore's model of CreateTrainingJob refuses: names, enumerations, lengths, numbers of entries and patterns.

botocore itself checks names, types and minima, and leaves the rest to AWS. With its model the rest is known before.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from botocore.model import ListShape, MapShape, Shape, StructureShape


class Fault(NamedTuple):
    path: tuple[str, ...]
    """In the request: names of members, keys of maps."""
    message: str


def faults(request: Mapping[str, Any]) -> Iterator[Fault]:
    yield from _of(request, _shape(), ())


@cache
def _shape() -> Shape:
    import botocore.session

    model = botocore.session.get_session().get_service_model("sagemaker")
    shape = model.operation_model("CreateTrainingJob").input_shape
    assert shape is not None
    return shape


def _of(value: Any, shape: Shape, path: tuple[str, ...]) -> Iterator[Fault]:
    if isinstance(shape, StructureShape):
        for name in (*shape.required_members, *value):
            if name not in value or name not in shape.members:
                yield Fault((*path, name), "is missing" if name not in value else "is no member")
        for name in value.keys() & shape.members.keys():
            yield from _of(value[name], shape.members[name], (*path, name))
    elif isinstance(shape, ListShape):
        yield from _size(len(value), shape, path, "entries")
        for each in value:
            yield from _of(each, shape.member, path)
    elif isinstance(shape, MapShape):
        yield from _size(len(value), shape, path, "entries")
        for key, each in value.items():
            yield from _of(key, shape.key, (*path, key))
            yield from _of(each, shape.value, (*path, key))
    else:
        yield from _scalar(value, shape, path)


def _scalar(value: Any, shape: Shape, path: tuple[str, ...]) -> Iterator[Fault]:
    if shape.type_name != "string":
        if not isinstance(value, bool):
            yield from _size(value, shape, path, "")
        return
    allowed, pattern = shape.metadata.get("enum"), shape.metadata.get("pattern")
    if allowed and value not in allowed:
        yield Fault(path, f"SageMaker has no {value}")
    yield from _size(len(value), shape, path, "characters")
    if pattern and not allowed and not _matches(pattern, value):
        yield Fault(path, f"must match {pattern}, got {value!r}")


def _size(size: int, shape: Shape, path: tuple[str, ...], what: str) -> Iterator[Fault]:
    low, high = shape.metadata.get("min"), shape.metadata.get("max")
    unit = f" {what}" if what else ""
    if low is not None and size < low:
        yield Fault(path, f"must be at least {low}{unit}, got {size}")
    if high is not None and size > high:
        yield Fault(path, f"must be at most {high}{unit}, got {size}")


def _matches(pattern: str, value: str) -> bool:
    """Patterns are Java's: one that Python cannot parse is left to AWS."""
    try:
        return re.fullmatch(pattern, value) is not None
    except re.error:
        return True
