"""Which Slurm node an instance is. Its launch writes it to the instance's tag, and the instance's boot waits for it.

CreateTags tags many instances in one call, but all with the same value. So instances that were launched together share
a value, `0:train-[1-500]`: the instance with the launch index 0 is train-1, the next one is train-2. The launch index
is "unique for each instance" of a RunInstances call (EC2's guide, AMI-launch-index-examples). The metadata service of
the instance and DescribeInstances return it. If an instance shares its value with no other, the value is the name of
its node, `train-7`, whatever its index is. Each gets such a value later (power/labels.py).

gpucluster/cluster/tagged_instances.py reads the same values on the user's machine.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

TAG = "gpucluster:node"
LONGEST = 256
"""Characters of a tag's value (EC2's API reference, Tag). EC2 allows any characters."""
MOST = 500
"""EC2 tags up to 1,000 resources in a call, and recommends smaller batches (its API reference, CreateTags)."""
_NAME = re.compile("(.+-)([1-9][0-9]*)")
_SHARED = re.compile(r"([0-9]+):(.+-)\[([0-9]+(?:-[0-9]+)?(?:,[0-9]+(?:-[0-9]+)?)*)\]")

Launched = tuple[int, str]
"""An instance's launch index, and its node."""


def chunks(launched: Sequence[Launched]) -> Iterator[tuple[str, list[str]]]:
    """Values of the tag, each with the nodes of the instances that share it. launched: the instances of a RunInstances
    call, in the order of their launch indexes. If EC2 repeats or omits an index, a new value begins there."""
    start = 0
    while start < len(launched):
        size = _alike(launched[start : start + MOST])
        while len(value := _value(launched[start : start + size])) > LONGEST:
            size = size * LONGEST // len(value)
        yield value, [node for _, node in launched[start : start + size]]
        start += size


def _alike(launched: Sequence[Launched]) -> int:
    """How many of the first ones have consecutive indexes and nodes of one partition."""
    prefix = _prefix(launched[0][1])
    for count, (index, node) in enumerate(launched):
        if index != launched[0][0] + count or _prefix(node) != prefix or prefix is None:
            return max(count, 1)
    return len(launched)


def _prefix(node: str) -> str | None:
    found = _NAME.fullmatch(node)
    return found[1] if found else None


def _value(launched: Sequence[Launched]) -> str:
    (first, node), *others = launched
    prefix = _prefix(node)
    if not others or prefix is None:
        return node
    return f"{first}:{prefix}[{ranges(int(each.removeprefix(prefix)) for _, each in launched)}]"


def ranges(numbers: Iterable[int]) -> str:
    """In Slurm's form and in the same order: 1 2 3 7 -> `1-3,7`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return ",".join("-".join(map(str, run)) for run in runs)


def node_of(value: str, launch_index: int) -> str | None:
    """The node of the instance that has this tag's value and launch index; None if it has none."""
    shared = _SHARED.fullmatch(value)
    if not shared:
        return None if ":" in value else value or None
    left = launch_index - int(shared[1])
    for first, _, last in (each.partition("-") for each in shared[3].split(",")):
        count = max(int(last or first) - int(first) + 1, 0)
        if 0 <= left < count:
            return f"{shared[2]}{int(first) + left}"
        left -= count
    return None
