"""The rank that did not come, from how far each rank has come. Every source counts collectives in groups of ranks."""

from __future__ import annotations

from typing import Mapping, NamedTuple

Counts = Mapping[str, Mapping[str, int]]
"""Group of ranks -> rank's label -> number of the last collective that it has begun."""


class Missing(NamedTuple):
    labels: list[str]
    """The ranks that did not come."""
    what: str
    """To what, in words."""
    waited: list[str]


def by_counts(counts: Counts, names: Mapping[str, str] | None = None) -> Missing | None:
    """names: of the last collective of a group. None if all ranks of all groups are as far as the others: then none
    is to blame."""
    for group, ranks in sorted(counts.items()):
        last = max(ranks.values(), default=0)
        behind = [label for label, number in ranks.items() if number < last]
        if behind:
            waited = [label for label in ranks if label not in behind]
            return Missing(behind, f"{(names or {}).get(group) or 'collective'} number {last}", waited)
    return None


def most(into: dict[str, dict[str, int]], group: str, label: str, number: int) -> None:
    ranks = into.setdefault(group, {})
    ranks[label] = max(number, ranks.get(label, number))
