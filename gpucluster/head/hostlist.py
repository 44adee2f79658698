"""Slurm's short form of several nodes, `train-[1-4,7],ps-1`. Asking `scontrol show hostnames` starts a process for each
list, too many for a picture of the whole queue every two seconds."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

MOST = 65_536
"""Slurm's own maximum of nodes (MAX_SLURM_NODES in its slurm.h)."""
_BRACKETS = re.compile(r"([^\[]*)(?:\[([^\]]*)\])?")


def names(node_list: str) -> tuple[str, ...]:
    """In its order. `(null)`, which Slurm shows for none, is none."""
    if node_list in ("", "(null)", "None assigned"):
        return ()
    words = re.findall(r"(?:[^,\[]|\[[^\]]*\])+", node_list)
    return tuple(islice((name for word in words for name in _expanded(word)), MOST))


def _expanded(word: str) -> Iterator[str]:
    """With several pairs of brackets, `rack[0-1]n[1-2]`, the last one counts fastest."""
    found = _BRACKETS.match(word)
    rest = word[found.end() :] if found else ""
    if found is None or found[2] is None:
        yield word
        return
    for number in _numbers(found[2]):
        for tail in _expanded(rest) if rest else ("",):
            yield f"{found[1]}{number}{tail}"


def _numbers(ranges: str) -> Iterator[str]:
    """`008-010` keeps its zeros."""
    for each in ranges.split(","):
        first, dash, last = each.partition("-")
        if dash and first.isdecimal() and last.isdecimal():
            yield from (str(number).zfill(len(first)) for number in range(int(first), int(last) + 1))
        else:
            yield each
