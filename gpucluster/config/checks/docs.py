"""Generates docs/validators.md from the validators.

`python -m gpucluster.config.checks.docs > docs/validators.md` writes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from gpucluster.config.checks import every
from gpucluster.config.validators import Validator

INTRODUCTION = """\
# Validators

`gpucluster validate` checks keys and values, and these {count} rules, {offline} of them offline. Each rule prevents a
rejection or a surprise by AWS or Slurm, and names its source. `python -m gpucluster.config.checks.docs` writes this
page: changes here are lost.

Each finding ends with the rule's name in brackets. To silence a rule that is wrong for you, name it in cluster.yaml:
`silence: [{example}]`. Its findings are then only counted. A rule marked `form` checks whether a value can be parsed,
and cannot be silenced. A rule marked `aws` asks your account with your credentials: `plan` and `up` run it first.
"""


def page() -> str:
    validators = sorted(every().values(), key=lambda validator: (validator.section, validator.name))
    offline = sum(validator.needs == "nothing" for validator in validators)
    parts = [INTRODUCTION.format(count=len(validators), offline=offline, example="region-known")]
    for section, members in groupby(validators, key=lambda validator: validator.section):
        parts.append(f"## {section}\n\n" + "\n".join(_lines(members)) + "\n")
    return "\n".join(parts)


def _lines(validators: Iterator[Validator]) -> Iterator[str]:
    yield "| name | level | what it requires | prevents |"
    yield "|---|---|---|---|"
    for validator in validators:
        level = validator.level + _marks(validator)
        yield f"| `{validator.name}` | {level} | {_cell(validator.requires)} | {_cell(validator.source)} |"


def _marks(validator: Validator) -> str:
    return ("" if validator.can_be_silenced else ", form") + (", aws" if validator.needs == "aws" else "")


def _cell(text: str) -> str:
    """Escapes angle brackets and bars, which would be read as HTML and as the table's columns."""
    return text.replace("|", r"\|").replace("<", "&lt;")


if __name__ == "__main__":
    print(page(), end="")
