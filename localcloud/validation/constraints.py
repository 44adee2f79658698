"""Checks a request's parameters against a shape of the service's model, with AWS's messages.

The wording is that of AWS's service framework, recorded for several services: awsdocs/aws-cloudformation-user-guide#439
(required), aws/aws-sdk-js#3321 (pattern), pcorliss/ruby_route_53#3 (enum), terraform-aws-modules/terraform-aws-acm#63
(length).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

from botocore.model import ListShape, MapShape, Shape, StringShape, StructureShape

# Java's character classes, approximately, as the contents of brackets
_CLASSES = {
    r"\p{L}": "A-Za-z\u00aa-\u02af\u0370-\u1fff\u2c00-\ud7ff\uf900-\uffdc",
    r"\p{N}": "0-9\u00b2\u00b3\u00b9\u0660-\u0669",
    r"\p{Nd}": "0-9",
    r"\p{Z}": " \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000",
    r"\p{Zs}": " \u00a0\u3000",
    r"\p{M}": "\u0300-\u036f",
    r"\p{P}": r"!-/:-@\[-`{-~",
    r"\p{S}": r"$+<=>^`|~",
    r"\p{ASCII}": "\x00-\x7f",
    r"\p{all}": "\x00-\U0010ffff",
    r"\p{Graph}": "!-~",
    r"\p{Alnum}": "A-Za-z0-9",
    r"\p{Print}": " -~",
}

# a few of AWS's patterns can match nothing: "…:placement-group/^.{1,255}$"
_INNER_ANCHOR = re.compile(r"[^\[\\|(]\^")
_INNER_FLAG = "(?i)"  # Java allows it anywhere in a pattern


def violations(shape: Shape, value: Any, path: str = "") -> Iterator[str]:
    """The violations of `value`."""
    if isinstance(shape, StructureShape):
        yield from _structure(shape, value, path)
    elif isinstance(shape, ListShape):
        yield from _list(shape, value, path)
    elif isinstance(shape, MapShape):
        yield from _map(shape, value, path)
    else:
        yield from _scalar(shape, value, path)


def _structure(shape: StructureShape, value: Any, path: str) -> Iterator[str]:
    if not isinstance(value, dict):
        return
    for name in shape.required_members:
        if value.get(name) is None:
            yield f"Value null at '{_below(path, name)}' failed to satisfy constraint: Member must not be null"
    members = shape.members
    for name, inner in value.items():
        if inner is not None and name in members:
            yield from violations(members[name], inner, _below(path, name))


def _below(path: str, name: str) -> str:
    """AWS's messages use its internal names of members, which begin with a small letter."""
    own = name[:1].lower() + name[1:]
    return f"{path}.{own}" if path else own


def _list(shape: ListShape, value: Any, path: str) -> Iterator[str]:
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        return
    yield from _message(shape, value, path, _lengths(shape, len(value)))
    for number, inner in enumerate(value, 1):
        yield from violations(shape.member, inner, f"{path}.{number}.member")


def _map(shape: MapShape, value: Any, path: str) -> Iterator[str]:
    if not isinstance(value, dict):
        return
    yield from _message(shape, value, path, _lengths(shape, len(value)))
    for key, inner in value.items():
        yield from violations(shape.key, key, f"{path}.key")
        yield from violations(shape.value, inner, f"{path}.{key}.member")


def _scalar(shape: Shape, value: Any, path: str) -> Iterator[str]:
    if isinstance(value, str) and isinstance(shape, StringShape):
        yield from _message(
            shape, value, path, [*_lengths(shape, len(value)), *_enum(shape, value), *_form(shape, value)]
        )
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield from _message(shape, value, path, _range(shape, value))


def _message(shape: Shape, value: Any, path: str, constraints: Sequence[str]) -> Iterator[str]:
    if constraints:
        seen = "" if shape.metadata.get("sensitive") else f" '{value}'"
        yield f"Value{seen} at '{path}' failed to satisfy constraint: {', '.join(constraints)}"


def _lengths(shape: Shape, length: int) -> list[str]:
    return _between(shape, length, "have length")


def _range(shape: Shape, value: float) -> list[str]:
    return _between(shape, value, "have value")


def _between(shape: Shape, value: float, words: str) -> list[str]:
    least, most = shape.metadata.get("min"), shape.metadata.get("max")
    found = []
    if most is not None and value > float(most):
        found.append(f"Member must {words} less than or equal to {most}")
    if least is not None and value < float(least):
        found.append(f"Member must {words} greater than or equal to {least}")
    return found


def _enum(shape: Shape, value: str) -> list[str]:
    allowed = shape.metadata.get("enum")
    if not allowed or value in allowed:
        return []
    return [f"Member must satisfy enum value set: [{', '.join(allowed)}]"]


def _form(shape: Shape, value: str) -> list[str]:
    fits = form_of(shape.metadata.get("pattern"))
    if fits is None or fits(value):
        return []
    return [f"Member must satisfy regular expression pattern: {shape.metadata['pattern']}"]


@lru_cache(maxsize=4096)
def form_of(pattern: str | None) -> Callable[[str], Any] | None:
    """A function that matches the whole value, as AWS does; None for a pattern that Python cannot express."""
    if not pattern or _INNER_ANCHOR.search(pattern):
        return None
    for java, ours in _CLASSES.items():
        pattern = pattern.replace(java, ours)
    flags = re.DOTALL | (re.IGNORECASE if _INNER_FLAG in pattern else 0)
    try:
        return re.compile(pattern.replace(_INNER_FLAG, ""), flags).fullmatch
    except re.error:
        return None
