"""The validator type and the list of all validators. Independent of cluster.yaml's keys.

Each has a name, which findings show and `silence` accepts, and a source: the limit, error code or manual line of AWS
or Slurm behind it. A missing source or a duplicate name is a bug.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeVar, get_args

from gpucluster.config.document import Finding, Level

Needs = Literal["nothing", "aws"]
Findings = Iterator[Finding]
Rule = Callable[..., Findings]
R = TypeVar("R", bound=Rule)

KINDS_OF_SOURCE = ("https://", "man ", "AWS::", "RFC ", "error ")
"""A page, a manual page, a property in CloudFormation's schemas, a standard, an error code of an AWS service."""

_NAME = r"[a-z][a-z0-9]*(-[a-z0-9]+)+"


class Validator(NamedTuple):
    name: str
    level: Level
    section: str
    """Its heading in docs/validators.md."""
    requires: str
    """One sentence: what must hold."""
    source: str
    each: tuple[type, ...] = ()
    """The kinds of sections that it checks; empty for a field, which is checked when it is read."""
    needs: Needs = "nothing"
    rule: Rule | None = None

    @property
    def can_be_silenced(self) -> bool:
        """False for checks of a value's form: a value that cannot be parsed cannot be used."""
        return self.rule is not None


class Unanswered(Exception):
    """AWS did not answer a validator's call: the rule is not checked, which is a warning."""

    hint: str | None = None
    """What it may mean, if the validator knows."""


_all: dict[str, Validator] = {}
VALIDATORS: Mapping[str, Validator] = MappingProxyType(_all)
"""The validators of the modules imported so far; `checks.every()` imports all modules first."""


def register(validator: Validator) -> None:
    """Raises ValueError for an incomplete or a duplicate validator."""
    if not re.fullmatch(_NAME, validator.name):
        raise ValueError(f"{validator.name!r} is no name for a validator: kebab-case, two words or more")
    if validator.name in _all:
        raise ValueError(f"there are two validators {validator.name}")
    if not any(kind in validator.source for kind in KINDS_OF_SOURCE):
        raise ValueError(f"{validator.name} has no source: {validator.source!r} names none of {KINDS_OF_SOURCE}")
    if not validator.requires:
        raise ValueError(f"{validator.name} does not say what it requires")
    _all[validator.name] = validator


class Validators(NamedTuple):
    """The validators of one section of docs/validators.md. `@validator(name, source)` adds a generator of findings.

    The first paragraph of its docstring is the requirement; the type of its first parameter selects the entries. It is
    called as `rule(entry, path, config)` for each such entry of the file, or as `rule(config)` for the whole file; a
    rule that calls AWS gets the clients as its last argument. The findings have the validator's level.
    """

    section: str
    needs: Needs = "nothing"

    def __call__(
        self, name: str, source: str, *, level: Level = "error", section: str | None = None
    ) -> Callable[[R], R]:
        def decorate(rule: R) -> R:
            heading = section or self.section
            register(Validator(name, level, heading, first_paragraph(rule), source, _entries(rule), self.needs, rule))
            return rule

        return decorate


def _entries(rule: Callable[..., Any]) -> tuple[type, ...]:
    """The kinds of entries that the rule checks: `Partition`, or `Partition | ParameterServers`."""
    annotation = next(iter(rule.__annotations__.values()))
    if not isinstance(annotation, str):  # in a module without `from __future__ import annotations`
        return get_args(annotation) or (annotation,)
    return tuple(rule.__globals__[name] for name in annotation.split(" | "))


def first_paragraph(rule: Callable[..., Any]) -> str:
    return " ".join((rule.__doc__ or "").partition("\n\n")[0].split()).rstrip(".")
