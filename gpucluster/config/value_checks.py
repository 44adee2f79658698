"""Named checks of single values. The checks themselves are in fields.py."""

from __future__ import annotations

import re
from collections.abc import Callable

from pydantic import AfterValidator
from pydantic_core import PydanticCustomError

from gpucluster.config.validators import Validator, first_paragraph, register

Check = Callable[[str], str]


def refuse(message: str, hint: str = "") -> PydanticCustomError:
    """Refuses a value. The texts are passed as context, because pydantic reads braces as placeholders."""
    return PydanticCustomError("refused", "{message}", {"message": message, "hint": hint})


def field(name: str, *, section: str, source: str) -> Callable[[Check], Check]:
    """Names a check of one value; the first paragraph of its docstring is the requirement."""

    def decorate(check: Check) -> Check:
        register(Validator(name, "error", section, first_paragraph(check), source))
        return _named(name, check)

    return decorate


def _named(name: str, check: Check) -> Check:
    def named(value: str) -> str:
        try:
            return check(value)
        except PydanticCustomError as refusal:
            context = {**(refusal.context or {}), "validator": name}
            raise PydanticCustomError("refused", "{message}", context) from None

    return named


def matching(pattern: str, what: str, hint: str = "") -> Callable[[str], str]:
    """The pattern is compiled for the first value, because a file has few of the possible keys."""

    def check(value: str) -> str:
        if not re.fullmatch(pattern, value):
            raise refuse(f"must be {what}, got {value!r}", hint)
        return value

    return check


def form(name: str, section: str, subject: str, pattern: str, what: str, source: str, hint: str = "") -> AfterValidator:
    """A named check of a text's form: `subject` must be `what`."""
    register(Validator(name, "error", section, f"{subject} is {what}", source))
    return AfterValidator(_named(name, matching(pattern, what, hint)))
