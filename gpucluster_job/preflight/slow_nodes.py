"""Finds slow nodes among pairs of nodes whose bandwidth was measured.

Each node is in two pairs (`allreduce.rounds`). It is slow if both are, and one of them is with a node that is fast
elsewhere. No published figure is needed. If many of the nodes are slow, none may be found.
"""

from __future__ import annotations

from typing import NamedTuple, Sequence

SLOW, FEW_SLOW, FEW = 0.7, 0.5, 4
"""A pair is slow below this share of the fast ones' bandwidth. Of few pairs, two may be slow because of a single node's
place in the network: then only a larger difference counts."""


class Pair(NamedTuple):
    first: str
    second: str
    gb_per_s: float

    @property
    def nodes(self) -> tuple[str, str]:
        return self.first, self.second

    def has(self, node: str) -> bool:
        return node in self.nodes

    def other(self, node: str) -> str:
        return self.second if node == self.first else self.first


def fast(pairs: Sequence[Pair]) -> float:
    """The third quartile, in GB/s: of three nodes, one slow one slows two of the three pairs down."""
    return sorted(pair.gb_per_s for pair in pairs)[3 * len(pairs) // 4]


def range_of(pairs: Sequence[Pair]) -> str:
    least, most = (f(pair.gb_per_s for pair in pairs) for f in (min, max))
    return f"pairs of nodes: {least:.1f} to {most:.1f} GB/s bus bandwidth at 1 GiB"


def described(pairs: Sequence[Pair]) -> tuple[list[str], list[str]]:
    """Warnings, and lines for the log."""
    limit = (SLOW if len(pairs) > FEW else FEW_SLOW) * fast(pairs)
    slow = [pair for pair in pairs if pair.gb_per_s < limit]
    if not slow:
        return [], [range_of(pairs)]
    well = {node for pair in pairs if pair not in slow for node in pair.nodes}
    never_well = sorted({pair.first for pair in pairs} - well, key=lambda node: (len(node), node))
    proven = [node for node in never_well if any(pair.has(node) and pair.other(node) in well for pair in slow)]
    rest = [f"{node} was measured with slow nodes only" for node in never_well if node not in proven]
    together = [_slow_together(pair, pairs) for pair in slow if well.issuperset(pair.nodes)]
    others = f"the fastest quarter of the pairs has {fast(pairs):.1f} GB/s or more"
    return [f"{each}; {others}" for each in ([_slow(proven, slow)] if proven else []) + rest], [
        range_of(pairs),
        *together,
    ]


def _slow(nodes: Sequence[str], pairs: Sequence[Pair]) -> str:
    def speeds(node: str) -> str:
        return ", ".join(f"{pair.gb_per_s:.1f} GB/s with {pair.other(node)}" for pair in pairs if pair.has(node))

    said = ", ".join(f"{node} ({speeds(node)})" for node in nodes)
    left_out = f"`--sbatch-args=--exclude={','.join(nodes)}` leaves {'it' if len(nodes) == 1 else 'them'} out"
    return f"{said} {'is' if len(nodes) == 1 else 'are'} slower than other nodes: {left_out}"


def _slow_together(pair: Pair, pairs: Sequence[Pair]) -> str:
    """Neither is slow in both of its pairs."""
    elsewhere = (_elsewhere(node, pair, pairs) for node in pair.nodes)
    return f"{pair.first} and {pair.second} are slow together ({pair.gb_per_s:.1f} GB/s); {', '.join(elsewhere)}"


def _elsewhere(node: str, pair: Pair, pairs: Sequence[Pair]) -> str:
    other = next(each for each in pairs if each.has(node) and each != pair)
    return f"{node} has {other.gb_per_s:.1f} GB/s with {other.other(node)}"
