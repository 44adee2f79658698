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

`gpucluster validate` checks keys and values, and {offline} of these {count} rules; the other {online} ask AWS.
Each rule prevents a rejection or a surprise by AWS or Slurm, and names its source.

Each finding ends with the rule's name in brackets. To silence a rule that is wrong for you, add its name to
cluster.yaml: `silence: [{example}]`. GpuCluster then hides its findings, and prints only how many.
The words after a rule's name mean:

- error: `up` refuses the cluster file. warning: `up` continues.
- form: the rule checks whether a value can be parsed. You cannot silence it.
- aws: the rule asks your account with your credentials. `plan` and `up` check it first. An error that the deployed
  cluster has already is a warning: `up` makes the other changes.

`python -m gpucluster.config.checks.docs` writes this page; do not edit it.
"""


def page() -> str:
    validators = sorted(every().values(), key=lambda validator: (validator.section, validator.name))
    offline = sum(validator.needs == "nothing" for validator in validators)
    online = len(validators) - offline
    parts = [INTRODUCTION.format(count=len(validators), offline=offline, online=online, example="region-known")]
    for section, members in groupby(validators, key=lambda validator: validator.section):
        parts.append(f"## {section}\n\n" + "\n".join(_lines(members)) + "\n")
    return "\n".join(parts)


def _lines(validators: Iterator[Validator]) -> Iterator[str]:
    for validator in validators:
        level = validator.level + _marks(validator)
        yield f"- `{validator.name}` ({level}): {_escaped(validator.requires)}. Source: {_escaped(validator.source)}"


def _marks(validator: Validator) -> str:
    return ("" if validator.can_be_silenced else ", form") + (", aws" if validator.needs == "aws" else "")


def _escaped(text: str) -> str:
    """Escapes angle brackets, which would be read as HTML."""
    return text.replace("<", "&lt;")


if __name__ == "__main__":
    print(page(), end="")
