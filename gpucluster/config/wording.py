"""Turns pydantic's errors into findings: the given value, the allowed ones, and what was probably meant."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from typing import Any

from gpucluster.config.document import Finding, Path, as_written
from gpucluster.meant import did_you_mean

_QUOTE = reprlib.Repr()
_QUOTE.maxstring = _QUOTE.maxother = 60


def finding(error: Mapping[str, Any], path: Path, allowed_keys: list[str]) -> Finding:
    """`error`: one of `ValidationError.errors()`; `path`: its path in the file. `allowed_keys`: the keys of the section
    around it, or the kinds of storage if the entry names none."""
    kind, context, got = error["type"], error.get("ctx", {}), error["input"]
    name = str(path[-1]) if path else ""
    if kind == "missing":
        return Finding(path, "this key is required")
    if kind == "extra_forbidden":
        return Finding(
            path, "unknown key", did_you_mean(name, allowed_keys, f"known: {', '.join(allowed_keys)}"), at="key"
        )
    if kind == "literal_error":
        return Finding(
            path, f"must be {one_of(_words(context['expected']))}, got {quoted(got)}", _near(got, context["expected"])
        )
    if kind == "union_tag_invalid":
        expected, got = context["expected_tags"], got.get("type")
        return Finding((*path, "type"), f"must be {one_of(_words(expected))}, got {quoted(got)}", _near(got, expected))
    if kind == "union_tag_not_found":
        return Finding(
            (*path, "type"),
            "this key is required: it names the kind of storage",
            one_of(allowed_keys),
        )
    if kind == "refused":
        return Finding(path, context["message"], context["hint"] or None, validator=context.get("validator", ""))
    return Finding(path, f"{_rule(kind, context)}, got {quoted(got)}", _quoting(kind, got))


def _rule(kind: str, context: Mapping[str, Any]) -> str:
    match kind:
        case "int_type" | "int_from_float":
            return "must be a whole number"
        case "float_type" | "finite_number":
            return "must be a number"
        case "bool_type" | "bool_parsing":
            return "must be true or false"
        case "string_type":
            return "must be text"
        case "greater_than_equal":
            return f"must be at least {context['ge']}"
        case "less_than_equal":
            return f"must be at most {context['le']}"
        case "greater_than":
            return f"must be greater than {context['gt']:g}"
        case "tuple_type":
            return "must be a list"
        case "too_short":
            return "must have at least one entry"
        case "model_type" | "model_attributes_type" | "dict_type":
            return "must be a section of `key: value` lines"
    return f"is not allowed ({kind.replace('_', ' ')})"


def quoted(value: Any) -> str:
    """The value about as the user wrote it: YAML's words, shortened if it is long."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    return _QUOTE.repr(value)


def _quoting(kind: str, got: Any) -> str | None:
    if kind == "string_type" and isinstance(got, (int, float)):
        return f'in quotes it is text: "{quoted(got) if isinstance(got, bool) else as_written(got)}"'
    if kind == "int_type" and isinstance(got, str) and got.strip().isdigit():
        return f"without quotes it is a number: {got.strip()}"
    if kind == "tuple_type" and isinstance(got, str):
        return f"a list of one: [{got}]"
    return None


def _near(got: Any, expected: str) -> str | None:
    return did_you_mean(str(got), _words(expected))


def _words(expected: str) -> list[str]:
    """The words in pydantic's list "'a', 'b' or 'c'", with or without the "or"."""
    return expected.split("'")[1::2]


def one_of(words: list[str]) -> str:
    """`a, b or c`."""
    *most, last = words
    return f"{', '.join(most)} or {last}" if most else last
