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
from typing import TYPE_CHECKING, Any

from gpucluster.config.document import Finding
from gpucluster.config.value_checks import refuse

if TYPE_CHECKING:
    from gpucluster.job.spec import JobSpec

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


def count(sweep: Mapping[str, Sequence[str]]) -> int:
    return prod(map(len, sweep.values())) if sweep else 0


def elements(spec: JobSpec) -> tuple[int, ...]:
    """The indexes of a job's elements. Empty for a plain job."""
    return tuple(range(count(spec.sweep))) if spec.sweep else indexes(spec.array) if spec.array else ()


def parameters(spec: JobSpec) -> Iterator[dict[str, str]]:
    """The values of each element of a sweep, in order: the last name's values change first."""
    for combination in product(*spec.sweep.values()):
        yield dict(zip(spec.sweep, combination, strict=True))


def option(spec: JobSpec) -> str | None:
    """sbatch's option for all elements."""
    if not (numbers := elements(spec)):
        return None
    most = spec.max_parallel or (at_once(spec.array) if spec.array else None)
    return f"--array={compressed(numbers)}" + (f"%{most}" if most else "")


def command(spec: JobSpec) -> tuple[str, ...]:
    """`{lr}` stands for the element's value. A command without placeholders gets all values as options, as W&B's
    agents pass them: --lr=0.1."""
    names = any(f"{{{name}}}" in word for name in spec.sweep for word in spec.command)
    if names or any(_PREFIX in word for word in spec.command):
        return spec.command
    return (*spec.command, *(f"--{name}={{{name}}}" for name in spec.sweep))


def check(spec: JobSpec) -> Iterator[Finding]:
    if spec.sweep and spec.array:
        yield Finding(("array",), "a sweep is already an array", "keep one of the two")
    if spec.max_parallel and not spec.sweep and not spec.array:
        yield Finding(("max_parallel",), "only for a job with a sweep or an array", "leave it out")
    if spec.max_parallel and spec.array and at_once(spec.array):
        yield Finding(("max_parallel",), "array already sets how many run at a time", "remove one of the two")
    if (asked := count(spec.sweep)) > MAX_ELEMENTS:
        combined = " × ".join(f"{len(found)} values of {name}" for name, found in spec.sweep.items())
        yield Finding(("sweep",), f"{combined} are {asked} elements, and {TOO_MANY}", FEWER)
    named: dict[str, str] = {}
    for name in spec.sweep:
        if named.setdefault(variable(name), name) != name:
            same = f"{named[variable(name)]} and {name} would both be {variable(name)}"
            yield Finding(("sweep", name), same, "rename one of the two")
    if (spec.sweep or spec.array) and spec.servers and spec.servers.nodes:
        reason = "servers on separate nodes make a heterogeneous job, and Slurm has no arrays of those"
        yield Finding(("servers",), reason, "remove nodes: the servers then run on the workers' nodes")
