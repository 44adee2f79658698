"""The checks that pydantic itself makes, as named validators: the choices (`Literal`) and ranges of the models.

A `Limit` beside the type has the validator's name and the limit's source; the type has the allowed values. It is
looked up for a refused value, or to list the validators.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple, get_args, get_origin

from annotated_types import Ge, Gt, Le, MinLen
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from gpucluster.config.document import Path
from gpucluster.config.section import Section
from gpucluster.config.validators import VALIDATORS, Validator, register
from gpucluster.config.wording import one_of

OUT_OF_LIMITS = (
    "literal_error",
    "greater_than",
    "greater_than_equal",
    "less_than_equal",
    "too_short",
    "union_tag_invalid",
)
"""Pydantic's error types for a value of the right type that is not allowed."""


class Limit(NamedTuple):
    """Only a name if the range is part of a rule of that validator in `checks`."""

    validator: str
    source: str = ""
    heading: str = ""
    """The heading, if it is not the section's."""


def name_of(kind: str, path: Path, section: type[BaseModel]) -> str:
    """The validator's name for a value of the section outside its choices or range; empty for other errors."""
    if kind not in OUT_OF_LIMITS:
        return ""
    key = next((part for part in reversed(path) if isinstance(part, str)), "")
    fields = (field for name, field in section.model_fields.items() if (field.alias or name) == key)
    found = (part for field in fields for part in parts(field, field) if isinstance(part, Limit))
    return next((limit.validator for limit in found), "")


def register_limits(models: type[Section]) -> None:
    """Registers the limits once, however often it is called."""
    allowed: dict[Limit, dict[str, list[Any]]] = {}
    for key, limit, field in limits(models):
        allowed.setdefault(limit, {}).setdefault(key.rpartition(".")[2], []).extend(_bounds(field))
    for limit, keys in allowed.items():
        if limit.source and limit.validator not in VALIDATORS:
            requires = ", and ".join(f"{key} {_allowed(bounds)}" for key, bounds in keys.items())
            register(Validator(limit.validator, "error", limit.heading, requires, limit.source))


def limits(section: type[Section], prefix: str = "") -> Iterator[tuple[str, Limit, FieldInfo]]:
    """Each key with a limit, without indexes: `storage.capacity_gib`."""
    for name, field in section.model_fields.items():
        key = f"{prefix}{field.alias or name}"
        for limit in (part for part in parts(field, field) if isinstance(part, Limit)):
            yield key, limit._replace(heading=limit.heading or section.heading), field
        for inner in dict.fromkeys(part for part in parts(field, field) if _is_section(part)):
            yield from limits(inner, f"{key}.")


def parts(part: Any, field: FieldInfo) -> Iterator[Any]:
    """All parts of a field's annotation, except those of a nested section."""
    yield part
    if part is field:
        inside = (field.annotation, *field.metadata)
    elif get_origin(part) is Literal:
        inside = ()
    else:
        inside = (*get_args(part), *(getattr(part, "metadata", ()) if isinstance(part, FieldInfo) else ()))
    for each in inside:
        yield from parts(each, field)


def _is_section(part: Any) -> bool:
    return isinstance(part, type) and issubclass(part, Section)


def _bounds(field: FieldInfo) -> list[Any]:
    """The allowed words of a choice, or the ends of a range."""
    found = list(parts(field, field))
    words = [word for part in found if get_origin(part) is Literal for word in get_args(part)]
    return words or [part for part in found if isinstance(part, (Ge, Gt, Le, MinLen))]


def _allowed(bounds: list[Any]) -> str:
    texts = []
    for bound in bounds:
        match bound:
            case Ge(ge=least):
                texts.append(f"at least {least}")
            case Gt(gt=least):
                texts.append(f"more than {least}")
            case Le(le=most):
                texts.append(f"at most {most}")
            case MinLen():
                return "has at least one entry"
    return f"is {' and '.join(dict.fromkeys(texts)) or one_of(list(dict.fromkeys(bounds)))}"
