"""What a validator is, and the list of them all. Knows nothing of what cluster.yaml holds.

Each has a name that findings show and `silence` takes, and a source: the limit, error code or manual line of AWS or
Slurm that it spares the user. One without a source is a mistake of ours, and so is a name given twice.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from inspect import signature
from types import MappingProxyType
from typing import Any, Literal, TypeVar

from gpucluster.config.document import Finding, Level

Needs = Literal["nothing", "aws"]
Findings = Iterator[Finding]
Rule = Callable[..., Findings]
R = TypeVar("R", bound=Rule)

KINDS_OF_SOURCE = ("https://", "man ", "AWS::", "RFC ", "error ")
"""A page, a manual page, a property in CloudFormation's schemas, a standard, an error code of an AWS service."""

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)+")


@dataclass(frozen=True)
class Validator:
    name: str
    level: Level
    section: str
    """The heading that docs/validators.md lists it under."""
    requires: str
    """One sentence: what must hold."""
    source: str
    each: tuple[type, ...] = ()
    """The sections of cluster.yaml of which it checks each one; none for a field, which is checked as it is read."""
    needs: Needs = "nothing"
    rule: Rule | None = None

    @property
    def can_be_silenced(self) -> bool:
        """A value that cannot be read cannot be let through either."""
        return self.rule is not None


class Unanswered(Exception):
    """What a validator asked AWS was not answered: it has nothing to say, and that is worth a warning."""


_all: dict[str, Validator] = {}
VALIDATORS: Mapping[str, Validator] = MappingProxyType(_all)
"""Those of the modules imported so far; `checks.every()` imports all modules first."""


def register(validator: Validator) -> None:
    """Raises ValueError for one that is incomplete or there already."""
    if not _NAME.fullmatch(validator.name):
        raise ValueError(f"{validator.name!r} is no name for a validator: kebab-case, two words or more")
    if validator.name in _all:
        raise ValueError(f"there are two validators {validator.name}")
    if not any(kind in validator.source for kind in KINDS_OF_SOURCE):
        raise ValueError(f"{validator.name} has no source: {validator.source!r} names none of {KINDS_OF_SOURCE}")
    if not validator.requires:
        raise ValueError(f"{validator.name} does not say what it requires")
    _all[validator.name] = validator


@dataclass(frozen=True)
class Validators:
    """Those of one section of docs/validators.md. `@validator(name, source)` makes a generator of findings one of them.

    The first paragraph of its docstring says what it requires; the type of its first parameter, of which entries. It is
    called as `rule(entry, path, config)` for each entry of the file, as `rule(config)` where that is the whole; a last
    argument, AWS's clients, is added where it needs them. The level of its findings is the validator's.
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
    """What the rule checks each of: `Partition`, or `Partition | ParameterServers`."""
    annotation: str = next(iter(signature(rule).parameters.values())).annotation
    return tuple(rule.__globals__[name] for name in annotation.split(" | "))


def first_paragraph(rule: Callable[..., Any]) -> str:
    return " ".join((rule.__doc__ or "").partition("\n\n")[0].split()).rstrip(".")
