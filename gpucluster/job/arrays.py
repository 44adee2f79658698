"""Jobs with several elements, each of which runs as a separate job: Slurm's job arrays, and sweeps, which are arrays
over values.

man sbatch.1 of Slurm 23.11, --array. man slurm.conf.5, MaxArraySize: the greatest index is one less, and the cluster
keeps the default.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import Any

from gpucluster.config.value_checks import refuse

Sweep = Mapping[str, Sequence[str]]
"""Name -> values."""
MAX_ELEMENTS = 1001
TOO_MANY = f"Slurm takes at most {MAX_ELEMENTS} elements in one job (MaxArraySize)"
FEWER = f"submit several jobs of at most {MAX_ELEMENTS}, or let the program loop over some of the values"
_PREFIX = "GPUCLUSTER_SWEEP_"
_ARRAY = r"(?P<parts>\d+(-\d+(:[1-9]\d*)?)?(,\d+(-\d+(:[1-9]\d*)?)?)*)(%(?P<parallel>[1-9]\d*))?"


def array(value: Any) -> Any:
    """Checks sbatch's form: 0-11, 1,5,7, 0-30:10, with an optional %4 at the end."""
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if not isinstance(text, str):
        return text
    if not re.fullmatch(_ARRAY, text):
        raise refuse(f"must be indexes such as 0-11, 1,5,7 or 0-30:10, and %4 for four at a time, got {text!r}")
    greatest = max(int(number) for number in re.findall(r"(?<![:%\d])\d+", text))
    if greatest >= MAX_ELEMENTS:
        raise refuse(f"the greatest index is {MAX_ELEMENTS - 1} (Slurm's MaxArraySize), got {greatest}", FEWER)
    if not indexes(text):
        raise refuse(f"names no index, got {text!r}")
    return text


def indexes(text: str) -> tuple[int, ...]:
    """The indexes that an `array` value lists, in order."""
    found: set[int] = set()
    for part in text.partition("%")[0].split(","):
        first, last, step = re.fullmatch(r"(\d+)(?:-(\d+)(?::(\d+))?)?", part).groups()  # type: ignore[union-attr]
        found.update(range(int(first), int(last or first) + 1, int(step or 1)))
    return tuple(sorted(found))


def at_once(text: str) -> int | None:
    return int(text.partition("%")[2]) if "%" in text else None


def compressed(numbers: Sequence[int]) -> str:
    """0-3,7 of 0, 1, 2, 3, 7."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def variable(name: str) -> str:
    """optimizer.lr is GPUCLUSTER_SWEEP_OPTIMIZER_LR."""
    return _PREFIX + re.sub(r"[^A-Z0-9]", "_", name.upper())


def count(sweep: Sweep) -> int:
    return prod(map(len, sweep.values())) if sweep else 0


def elements(sweep: Sweep, array: str | None) -> tuple[int, ...]:
    """The indexes of a job's elements. Empty for a plain job."""
    return tuple(range(count(sweep))) if sweep else indexes(array) if array else ()


def parameters(sweep: Sweep) -> Iterator[dict[str, str]]:
    """The values of each element of a sweep, in order: the last name's values change first."""
    for combination in product(*sweep.values()):
        yield dict(zip(sweep, combination, strict=True))


def option(numbers: Sequence[int], most: int | None) -> str:
    """sbatch's option for these elements. most: how many run at a time."""
    return f"--array={compressed(numbers)}" + (f"%{most}" if most else "")


def command(words: tuple[str, ...], sweep: Sweep) -> tuple[str, ...]:
    """`{lr}` stands for the element's value. A command without placeholders gets all values as options, as W&B's
    agents pass them: --lr=0.1."""
    names = any(f"{{{name}}}" in word for name in sweep for word in words)
    if names or any(_PREFIX in word for word in words):
        return words
    return (*words, *(f"--{name}={{{name}}}" for name in sweep))
